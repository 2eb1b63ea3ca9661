"""``explore`` and ``explain``: from expressions and plans to recordings, from recordings to views."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeAlias

import graphviz  # type: ignore[import-untyped]  # the package has no types

from explorer.cell_outputs import preview
from explorer.core.argument_checks import check_name, check_type, refuse_option
from explorer.core.attributes import as_written
from explorer.core.checked_functions import named, named_methods
from explorer.core.errors import DeclarationError, OperandError, UnknownNameError, class_text
from explorer.core.ir.expr import Expr
from explorer.core.ir.hooks import View
from explorer.core.ir.recording_context import operator_of
from explorer.core.ir.view_options import RecordOption, ViewOptions
from explorer.core.pytree import flatten
from explorer.formats import open
from explorer.formats.recording_file import stored_recording
from explorer.layers import Layer
from explorer.layers.framework.expand import expand
from explorer.net import Net, NetOperator
from explorer.plan.rewrite.pattern import Pattern
from explorer.record import Recording
from explorer.record.gc_pause import gc_paused
from explorer.record.listings import without_source
from explorer.run.diagnosis.leaf_values import leaf_answer
from explorer.run.diagnosis.weight_comparison import compare_weights
from explorer.run.evalplan import EvalPlan
from explorer.run.recording.recorder import expressions, node_id
from explorer.save_view import save
from explorer.view.compare.comparison_view import Compared
from explorer.view.compare.side_by_side import SideBySide
from explorer.view.compare.step_mapping import TIES, Tie
from explorer.view.export import dot
from explorer.view.export.cost_report import costs, gains
from explorer.view.export.history_text import why
from explorer.view.export.pair_text import why_pair
from explorer.view.export.text import text
from explorer.view.layout.direction import DIRECTIONS
from explorer.view.model.heat import METRICS, HeatMetric
from explorer.view.model.overlay import overlay, time_difference
from explorer.view.payload.payload import THEMES
from explorer.view.widget.widget import GraphView

_MOST_DECLINED = 3
"""declined decisions about an expression for which it is told what would make them apply, at most"""
_VIEW = tuple(ViewOptions.__annotations__)
"""options of a view"""
_PLANNED: dict[str, Any] = {"run": True, "record": "values", "plan": None}
"""options of what is planned for the view"""


Node: TypeAlias = Expr | NetOperator | int | str
"""what every method of a view takes for a node: its expression, the operator of a net that records it, its id, or a
name: of an operator, a layer, a scope, a variable or an operation"""


def check_options(options: Mapping[str, Any], *further: str) -> None:
    """Raise UnknownNameError, with near names, for an option that no view has, OperandError for a wrong value."""
    for name in options:
        if name not in _VIEW:
            refuse_option(name, "explore", (*_VIEW, *further))
    if "theme" in options:
        check_name(options["theme"], "theme", THEMES)
    if "direction" in options:
        check_name(options["direction"], "direction", DIRECTIONS)
    if "source" in options:
        check_type(options["source"], "source", bool, "True or False", "source=False")
    for name, example in (("height", 560), ("position", 0), ("depth", 1)):
        if name in options:
            check_type(options[name], name, int, "a whole number", f"{name}={example}")


@named_methods
class SavableView(GraphView):
    """A view that writes what it shows to a file; without ``source`` neither holds any text of the program."""

    def __init__(self, recording: Recording, *, source: bool = True, **options: Any) -> None:
        self._has_source = source
        super().__init__(self._shown(recording), **options)

    def _shown(self, recording: Recording) -> Recording:
        return recording if self._has_source else without_source(recording)

    def update(self, recording: Recording) -> None:
        """Show a newer recording of the same plan, for instance after its run; step, stage and selection are kept."""
        super().update(self._shown(recording))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what the view shows, at its step, with its selection and open boxes; the ending chooses the form.

        ``.html`` is a page to step through, ``.svg`` and ``.png`` are pictures, ``.dot`` is for Graphviz; ``.txt`` (the
        decisions) and ``.json`` (the recording) hold all steps. Example: ``plan.explore().save("model.html")``. Raises
        FileError for another ending, and for ``.png`` without the extra ``explorer-graphs[png]``.
        """
        save(self.recording, path, self.state)

    def _node_of(self, what: Node) -> int | str:
        rule = "an expression, an operator, a node's number, or a name"
        check_type(what, "node", (int, str, NetOperator), rule, 'view.focus(net["conv1"]), view.why(x, "conv1")')
        node = what.name if isinstance(what, NetOperator) else what
        try:
            self._nodes_of(node)  # type: ignore[arg-type]  # checked above
        except ValueError as error:
            raise OperandError(str(error), rule="a node must be one of this view", fix='view.focus("conv1")') from None
        return node  # type: ignore[return-value]  # checked above

    def focus(self, what: Node) -> None:
        """Select a node, open the boxes around it and bring it into sight.

        Takes an expression, an operator (``net["conv2"]``), a node's id, or the name of an operator, a layer, a scope,
        a variable or an operation; so do the other methods, and ``view.selected = …``, which selects it where it is.
        Of an operator or a scope the last node is selected.
        """
        super().focus(self._node_of(what))

    def trace(self, node: Node, way: str = "inputs") -> None:
        """Select a node and light all that it is computed from, or with ``way="outputs"`` all computed from it.

        Takes a node as ``focus`` does. Example: ``view.trace(y, "outputs")``.
        """
        super().trace(self._node_of(node), way)

    def why(self, one: Node, other: Node | None = None) -> str:
        """Return the history of a node as text; of two nodes the decisions about both, or what became of each.

        Takes nodes as ``focus`` does. Example: ``print(view.why(x, y))``.
        """
        return super().why(self._node_of(one), None if other is None else self._node_of(other))

    def from_line(self, line: int | str, cell: str | int | None = None) -> list[int]:
        """Return the nodes recorded at a line, and select the first one; see ``GraphView.from_line``."""
        check_type(line, "line", (int, str), "a line's number, or a part of its text", 'view.from_line("tanh", cell=3)')
        return super().from_line(line, cell)

    def overlay(
        self, values: Mapping[Any, float] | Pattern, *, name: str = "overlay", unit: str = "", text: str = ""
    ) -> None:
        """Colour the graph by numbers of nodes: ``view.overlay({y: 0.25, "conv1": 0.5})``, or by matches of a pattern.

        Keys are nodes as ``focus`` takes them. A pattern, ``view.overlay(ex.pattern("x * sigmoid(x)"))``, gives each
        node the number of its match, from 1 on.
        """
        if isinstance(values, Pattern):
            values = values.overlay(*self._roots())
        check_type(values, "values", Mapping, "numbers by node, or a pattern", 'view.overlay({"conv1": 0.5})')
        super().overlay({self._node_of(key): value for key, value in values.items()}, name=name, unit=unit, text=text)

    def _roots(self) -> Sequence[Expr]:
        """Return the expressions that a pattern is searched in."""
        raise OperandError(
            "a pattern laid over a recording",
            rule="a pattern must be laid over a view of a plan, whose nodes are expressions",
            fix="plan.explore().overlay(pattern), net.explore().overlay(pattern)",
        )

    @property
    def selected_expression(self) -> Expr | None:
        """The expression of the selected node, None when nothing is selected, and for a recording without its plan."""
        return None

    @property
    def selected_operator(self) -> str | None:
        """Name of the operator of a net that recorded the selected node, ``net[view.selected_operator]``, or None."""
        expression = self.selected_expression
        operator = None if expression is None else operator_of(expression.scope)
        return None if operator is None else str(operator.name)

    def overlay_times(self, before: EvalPlan | Recording) -> None:
        """Colour the graph by how much longer each kernel took than in an earlier run of the same graph or a like one.

        Example: ``plan.explore().overlay_times(other)``. Raises ValueError if either has not run.
        """
        check_type(before, "before", (EvalPlan, Recording), "a plan, or a recording", "view.overlay_times(plan)")
        earlier = before if isinstance(before, Recording) else before.recording
        other = earlier.title or "the other run"
        text = f"the time of a kernel, minus that of its counterpart in {other}: negative where this run is faster"
        times = time_difference(earlier, self.recording)
        self._lay_over(overlay(self.recording, times, "Δ time", "µs", text, "Δ time, this run − the other"))


@named_methods
class ExpressionView(SavableView):
    """A view of a plan whose nodes are expressions: selections work in both directions."""

    @gc_paused()
    def __init__(self, plan: EvalPlan, **options: Any) -> None:
        self.planned = plan.planned
        super().__init__(plan.recording, **options)

    def _value(self, node: int) -> dict[str, Any]:
        """Summarize the value of a leaf, such as a weight of a file, which is read now; the recording keeps it."""
        summary, problem = leaf_answer(self.planned, node)
        if summary is not None:
            self.recording.leaf_values[node] = summary
        return {"summary": summary and asdict(summary), "problem": problem}

    @property
    def selected_expression(self) -> Expr | None:
        """The expression of the selected node, None when nothing is selected."""
        return expressions(self.planned)[self.selected] if self.selected >= 0 else None

    def _roots(self) -> Sequence[Expr]:
        return self.planned.graph.recorded_roots

    def _node_of(self, what: Node) -> int | str:
        return node_id(self.planned, what) if isinstance(what, Expr) else super()._node_of(what)


def explore(
    what: Any,
    *,
    run: bool = True,
    record: RecordOption = "values",
    plan: Mapping[str, Any] | None = None,
    **options: Any,
) -> View:
    """A widget to step through: of an expression or a container of them, of a layer, a net, a plan, or a recording.

    A path is that of a model's file, or of a recording that ``view.save("x.explorer.json")`` wrote. Expressions are
    planned with the options in ``plan`` and, unless ``run`` is false, evaluated with a summary of every value.
    """
    check_type(run, "run", bool, "True or False", "run=False")
    if plan is not None:
        check_type(plan, "plan", Mapping, "options of ex.EvalPlan by name", 'plan={"without": "fuse"}')
    if isinstance(what, os.PathLike) or (isinstance(what, str) and os.path.splitext(what)[1]):
        recording = stored_recording(what)
        what = open(what) if recording is None else recording
    if isinstance(what, Layer):
        return explore_layer(what, run=run, record=record, plan=plan, **options)
    if isinstance(what, (Net, Recording, EvalPlan)):
        of_expressions = {"run": run, "record": record, "plan": plan}
        changed = [name for name, value in of_expressions.items() if value != _PLANNED[name]]
        if changed:
            raise OperandError(
                f"explore of {class_text(what)} with {changed[0]}=…",
                rule="run, record and plan must be given for expressions and layers alone: others are planned already",
                fix="ex.EvalPlan(record=…, without=…), net.plan(x, record=…)",
            )
    if isinstance(what, Net):
        return what.explore(**options)
    check_options(options, *_PLANNED)
    if isinstance(what, Recording):
        return SavableView(what, **options)
    if isinstance(what, EvalPlan):
        return ExpressionView(what, **options)
    leaves = [as_written(leaf) for leaf in flatten(what)[0]]
    if not leaves or not all(isinstance(leaf, Expr) for leaf in leaves):
        raise OperandError(
            f"explore of {class_text(what)}",
            rule="ex.explore must be given an expression, a container of them, a layer, a net, a plan, a recording "
            "or a path",
            fix="ex.explore(ex.tensor(array))" if hasattr(what, "__array__") else "y = ex.tanh(x); ex.explore(y)",
        )
    fresh_plan = EvalPlan(record=record, **(plan or {}))
    for leaf in leaves:
        fresh_plan.register(leaf)
    with preview(**options):
        fresh_plan.prepare()
    if run:
        fresh_plan.eval()
    return ExpressionView(fresh_plan, **options)


def explore_layer(
    layer: Layer,
    *,
    inputs: Any = None,
    run: bool = True,
    record: RecordOption = "values",
    plan: Mapping[str, Any] | None = None,
    **options: Any,
) -> ExpressionView:
    """A widget of a layer's graph and, of a training layer, of the gradients that it builds.

    ``inputs`` are types or values by port, or the only one. A layer for inference is run if its inputs and parameters
    have values.
    """
    check_options(options, *_PLANNED, "inputs")
    expanded = expand(layer, inputs)
    fresh_plan = EvalPlan(record=record, **{"title": f"{layer.name} · {type(layer).__name__}", **(plan or {})})
    for root in (*expanded.outputs.values(), *expanded.gradients.values()):
        fresh_plan.register(root)
    with preview(**options):
        fresh_plan.prepare()
    if run and expanded.valued:
        fresh_plan.eval()
    return ExpressionView(fresh_plan, **{"position": 0, **options})


def to_graphviz(plan: EvalPlan, stage: str | None = None) -> graphviz.Digraph:
    """Return the graph of a plan after a stage, for None at the end."""
    recording = plan.recording
    if stage is None:
        return dot.to_graphviz(recording)
    ends = {each.name: each.last for each in recording.stages}
    if stage not in ends:
        raise UnknownNameError(stage, kind="stage", known=ends)
    return dot.to_graphviz(recording, ends[stage])


@named_methods
class ExplorableComparison(Compared):
    """Comparison whose views are explored with the options of every view."""

    def explore(self, *, tied: Tie = "nodes", **options: Any) -> SideBySide:
        """Return both plans as a widget; moving, stepping or selecting in one view moves the other.

        ``tied`` says how: "nodes" to the kernel of the same nodes, "steps" to the step of the same number, "off" not
        at all. ``options`` are those of `explore`. Raises UnknownNameError for another one.
        """
        check_name(tied, "tied", TIES)
        check_options(options, "tied")
        return super().explore(tied=tied, **options)


def compare(
    before: EvalPlan | Recording, after: EvalPlan | Recording, *, weights: bool = False
) -> ExplorableComparison:
    """Two plans beside each other; with ``weights`` also the values of those that both read."""
    if not isinstance(after, (EvalPlan, Recording)):
        raise OperandError(
            f"comparing a plan with {class_text(after)}",
            rule="a plan must be compared with a plan, or with a recording",
            fix="other = ex.EvalPlan(without=…); register the same expressions there",
        )
    recordings = [each.recording if isinstance(each, EvalPlan) else each for each in (before, after)]
    compared = ExplorableComparison.of(*recordings)
    if weights and isinstance(before, EvalPlan) and isinstance(after, EvalPlan):
        differences = compare_weights(compared, expressions(before.planned), expressions(after.planned))
        return replace(compared, weights=differences)
    return compared


def explain(plan: EvalPlan, what: Expr | None = None) -> str:
    """The plan's decisions as text: all, or those about one expression."""
    recording = plan.recording
    if what is None:
        return text(recording) + costs(recording) + gains(recording)
    return why(recording, node_id(plan.planned, what)) + _what_it_would_take(plan, what)


def why_pair_of(plan: EvalPlan, one: Expr, other: Expr) -> str:
    """The decisions about two expressions as text, or what became of each."""
    return why_pair(plan.recording, [node_id(plan.planned, one)], [node_id(plan.planned, other)])


def _what_it_would_take(plan: EvalPlan, what: Expr) -> str:
    """Return the smallest changes that would turn the costliest declined decisions about an expression."""
    choices = plan.planned.graph.decisions
    declined = [
        decision
        for decision, choice in zip(plan.recording.decisions, choices, strict=True)
        if not choice.applied and any(node is what for node in choice.subjects)
    ]
    declined.sort(key=lambda decision: -decision.facts["estimated_cost_us"])
    answers = [str(plan.what_if(decision)) for decision in declined[:_MOST_DECLINED]]
    return "".join(["what it would take:\n" * bool(answers), *answers])


@named
def register_heat(
    name: str, of: Callable[[Recording, int], float], *, unit: str, text: str = "", replace: bool = False
) -> None:
    """Add a number of nodes by which ``explore`` can colour the graph: views made from now on have it in their choice.

    ``of(recording, node)`` returns the number, finite and not negative: ``recording.nodes.flops[node] / 8``.
    A box has the sum of the nodes in it that stand at the step shown. ``unit`` is written after the number ("µs" and
    "B" with their larger units), ``text`` explains the legend. Raises DeclarationError for a taken name, unless
    ``replace`` is True; the three of explorer itself cannot be replaced.

    >>> ex.register_heat("words", lambda recording, node: recording.nodes.flops[node] / 8, unit="words")
    """
    for argument, value in (("name", name), ("unit", unit), ("text", text)):
        check_type(value, argument, str, "a text", f'{argument}="reads"')
    check_type(replace, "replace", bool, "True or False", "replace=True")
    metric = METRICS.get(name)
    if not name.strip() or not callable(of):
        raise DeclarationError(
            f"a heat metric {name!r} of {of!r}",
            rule="a heat metric must have a name, and a function of a recording and a node's number",
            fix='ex.register_heat("reads", lambda recording, node: …, unit="operands")',
        )
    if metric is not None and (metric.of is None or not replace):
        raise DeclarationError(
            f"a second heat metric {name!r}",
            rule=f"a heat metric's name must be new; there are {', '.join(METRICS)}",
            fix="choose another name" + (f", or ex.register_heat({name!r}, …, replace=True)" if metric.of else ""),
        )
    METRICS[name] = HeatMetric(name, unit, "", text, of)
