"""Implementation of ``plan.explain``, ``plan.compare`` and ``plan.to_graphviz``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from explorer.core.argument_checks import check_name, named, named_methods, options_of
from explorer.core.errors import OperandError, StateError, UnknownNameError, class_text
from explorer.core.ir.explore_options import ViewOptions
from explorer.core.ir.expr import Expr
from explorer.names.operations import same_operation
from explorer.plan.passes.codegen import Codegen
from explorer.record import Recording
from explorer.record.compare.comparison import Comparison
from explorer.record.compare.comparison import compare as compare_recordings
from explorer.record.compare.operators import ComparedOperator, compare_operators, recorded_operators
from explorer.record.reasons import render
from explorer.run.diagnosis.weight_comparison import compare_weights
from explorer.run.evalplan import EvalPlan
from explorer.run.recording.recorder import expressions, node_id
from explorer.view.compare import comparison_text
from explorer.view.compare.step_mapping import TIES, Tie
from explorer.view.export.cost_report import costs, gains, times
from explorer.view.export.text import text
from explorer.view.export.why_text import why, why_operator, why_pair
from explorer.view.tree.scopes import nodes_named

if TYPE_CHECKING:
    import graphviz  # type: ignore[import-untyped]  # the package has no types

    from explorer.view.compare.side_by_side import SideBySide

_MOST_DECLINED = 3
"""maximum number of declined decisions for which such changes are listed"""


def to_graphviz(plan: EvalPlan, stage: str | None = None) -> graphviz.Digraph:
    """Return a plan's graph after ``stage``; None: the final graph."""
    from explorer.view.export import dot  # slow to import, and not needed for text

    recording = plan.recording
    if stage is None:
        return dot.to_graphviz(recording)
    ends = {each.name: each.last for each in recording.stages}
    if stage not in ends:
        raise UnknownNameError(stage, kind="stage", known=ends)
    return dot.to_graphviz(recording, ends[stage])


@named_methods
class ExplorableComparison(Comparison):
    """Comparison of two plans: ``print`` shows text, a notebook cell two images, and ``explore`` two views."""

    def __str__(self) -> str:
        return self.text()

    def text(self, *, measured: bool = False, nodes: bool = False) -> str:
        """Return the comparison as text; ``measured=True`` adds measured times, which differ between runs.

        If operators of two model files differ, they are listed, and ``nodes=True`` also lists the recorded nodes,
        decisions and kernels that differ.
        """
        return comparison_text.text(self, measured=measured, nodes=nodes)

    def html(self) -> str:
        """Return script-free HTML: both graphs side by side with differences marked, and the text below."""
        from explorer.view.compare.comparison_html import html  # only needed for drawings

        return html(self)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self.html()}

    @options_of(ViewOptions)
    def explore(self, *, tied: Tie = "nodes", **options: Unpack[ViewOptions]) -> SideBySide:
        """Return both plans as a widget with two synchronized views.

        ``tied="nodes"`` moves the other view to the kernel that contains the same nodes, ``tied="steps"`` to the step
        with the same number, and ``tied="off"`` separates the views. ``options`` are the options of `explore`. Raises
        UnknownNameError for an unknown option.
        """
        from explorer.api import check_options  # slow to import, and not needed for text
        from explorer.view.compare.side_by_side import SideBySide

        check_name(tied, "tied", TIES)
        check_options(options, "tied")
        return SideBySide(self, tied=tied, **options)


@named
def compare(
    before: EvalPlan | Recording,
    after: EvalPlan | Recording,
    *,
    weights: bool = False,
    operators: tuple[Sequence[ComparedOperator], Sequence[ComparedOperator]] | None = None,
) -> ExplorableComparison:
    """Return the comparison of two plans; ``weights=True`` also compares the values of weights that both plans read.

    ``operators`` are the operators of two model files. By default, they are the operators in the recordings.
    """
    if not isinstance(after, (EvalPlan, Recording)):
        raise OperandError(
            f"comparing a plan with {class_text(after)}",
            rule="a plan must be compared with a plan, or with a recording",
            fix="other = ex.EvalPlan(without=…); register the same expressions there",
        )
    first, second = (each.recording if isinstance(each, EvalPlan) else each for each in (before, after))
    sides = operators or (recorded_operators(first), recorded_operators(second))
    # The operators of a file of weights only return them.
    has_operands = any(operator.inputs for side in sides for operator in side)
    differences = compare_operators(*sides) if all(sides) and has_operands else None
    names = same_operation if first.compiler != second.compiler else None
    compared = replace(ExplorableComparison(**vars(compare_recordings(first, second, names))), operators=differences)
    if weights and isinstance(before, EvalPlan) and isinstance(after, EvalPlan):
        compared_weights = compare_weights(compared, expressions(before.planned), expressions(after.planned))
        return replace(compared, weights=compared_weights)
    return compared


def explain(plan: EvalPlan, what: Expr | str | None = None) -> str:
    """Return a plan's decisions as text, or only the decisions about ``what``, an expression or a name."""
    recording = plan.recording
    if what is None:
        return text(recording) + times(recording) + costs(recording) + gains(recording)
    if isinstance(what, str):
        return why_operator(recording, what, nodes_named(recording, what))
    return why(recording, node_id(plan.planned, what)) + _what_it_would_take(plan, what)


def code(plan: EvalPlan, what: Expr | str | None = None) -> str:
    """Return the C code of the kernels that compute ``what``, or of all kernels; raise StateError if there is none."""
    recording = plan.recording
    kernels = recording.kernels_of()
    nodes = range(len(recording.nodes)) if what is None else _nodes(plan, what)
    callers = {callee: node for node, callee in enumerate(recording.nodes.callee) if callee > 0}

    def computing(node: int) -> tuple[int, ...]:
        """Return the kernels of a node, or of the call in whose body it is."""
        while node not in kernels and recording.nodes.body[node] in callers:
            node = callers[recording.nodes.body[node]]
        return kernels.get(node, ())

    shown = {kernel for node in nodes for kernel in computing(node) if kernel in recording.codes}
    if not shown:
        raise _no_code(plan, what, {member for node in nodes for member in _members(recording, computing(node))})
    return "\n".join([recording.codes[kernel].text for kernel in sorted(shown)])


def _members(recording: Recording, kernels: Sequence[int]) -> list[int]:
    """Return the nodes of kernels."""
    schedule = recording.schedule
    return [node for kernel in kernels for node in schedule.kernels[kernel].nodes] if schedule else []


def _no_code(plan: EvalPlan, what: Expr | str | None, nodes: set[int]) -> StateError:
    """Return the error that states why the kernels of nodes have no code."""
    subject = "a plan" if what is None else what if isinstance(what, str) else "an expression"
    given = f"the code of {subject}, which NumPy computes"
    if not any(isinstance(planning_pass, Codegen) for planning_pass in plan.planned.options.passes):
        return StateError(
            given,
            rule="only a plan that compiles kernels generates code",
            fix='ex.EvalPlan(kernels="native")',
        )
    recording = plan.recording
    declined = [
        render(row.reason, row.facts, recording.named_label)
        for row in recording.decisions
        if row.rule == Codegen.rule.name and row.verdict == "declined" and not nodes.isdisjoint(row.subjects)
    ]
    return StateError(
        given,
        rule=" ".join(dict.fromkeys(declined[:_MOST_DECLINED]))
        or "code is generated for fused elementwise operations, rows, windows, and operations after products",
        fix="plan.explain() lists the decisions about all kernels",
    )


def why_pair_of(plan: EvalPlan, one: Expr | str, other: Expr | str) -> str:
    """Return as text the decisions that affect both arguments or, if there are none, the history of each."""
    names = [what if isinstance(what, str) else "" for what in (one, other)]
    return why_pair(plan.recording, _nodes(plan, one), _nodes(plan, other), names)


def _nodes(plan: EvalPlan, what: Expr | str) -> list[int]:
    return nodes_named(plan.recording, what) if isinstance(what, str) else [node_id(plan.planned, what)]


def _what_it_would_take(plan: EvalPlan, what: Expr) -> str:
    """Return the smallest changes that would make the costliest declined decisions about an expression apply."""
    choices = plan.planned.graph.decisions
    declined = [
        decision
        for decision, choice in zip(plan.recording.decisions, choices, strict=True)
        if not choice.applied and any(node is what for node in choice.subjects)
    ]
    declined.sort(key=lambda decision: -decision.facts["estimated_cost_us"])
    answers = [str(plan.what_if(decision)) for decision in declined[:_MOST_DECLINED]]
    return "".join(["what it would take:\n" * bool(answers), *answers])
