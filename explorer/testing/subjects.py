"""Nodes to which an assertion's arguments refer, and declined decisions about them.

Nodes are looked up in the recording, since the planned graph may lack some of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from explorer.core.argument_checks import check_type
from explorer.core.errors import OperandError, UnknownNameError
from explorer.core.ir.expr import Expr
from explorer.record import Decision, Kernel, Recording
from explorer.record.reasons import micros_text
from explorer.run.evalplan import EvalPlan
from explorer.run.recording.recorder import node_id
from explorer.view.export.decision_lines import decision_line
from explorer.view.tree.scopes import scope_path

Subject: TypeAlias = Expr | str
"""expression, or name of an operation, a layer, a scope or an operator: ``tanh``, ``block / tanh``, ``layer1``"""
AnyPlan: TypeAlias = EvalPlan | Recording
_UNCOMPUTED = ("constant", "leaf", "input")
"""kinds of nodes that are not computed by kernels"""
_DECLINED = 8
"""maximum number of declined decisions that a failure lists"""


class Subjects(NamedTuple):
    """Recorded nodes for each argument of an assertion, in recording order."""

    recording: Recording
    names: tuple[str, ...]
    nodes: tuple[tuple[int, ...], ...]

    @property
    def all_nodes(self) -> set[int]:
        """Nodes of all arguments."""
        return {node for nodes in self.nodes for node in nodes}

    def __str__(self) -> str:
        names = [f"`{name}`" for name in self.names]
        return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def recording_of(plan: AnyPlan) -> Recording:
    """Return the recording of a plan."""
    check_type(
        plan, "plan", (EvalPlan, Recording), "a plan that was prepared or has run, or its recording", "plan.prepare()"
    )
    return plan if isinstance(plan, Recording) else plan.recording


def schedule_of(recording: Recording) -> tuple[Kernel, ...]:
    """Return the kernels of a recording; raise OperandError if it was never planned."""
    if recording.schedule is None:
        raise OperandError(
            "a recording without a schedule", rule="the plan must be prepared, not only contain recorded expressions",
            fix="plan.prepare()",
        )  # fmt: skip
    return recording.schedule.kernels


def subjects(plan: AnyPlan, what: Iterable[Subject]) -> Subjects:
    """Return the nodes of expressions and names in a plan.

    Raises UnknownNameError for an unknown name, OperandError for an expression that is not in the plan.
    """
    recording, arguments = recording_of(plan), tuple(what)
    if not arguments:
        raise OperandError(
            "nothing to look at", rule="expressions or names must follow the plan", fix='assert_fused(plan, "add", y)'
        )
    nodes = []
    for argument in arguments:
        check_type(argument, "each argument after the plan", (Expr, str), "an expression or a name", '"block / tanh"')
        if isinstance(argument, str):
            nodes.append(_nodes_named(recording, argument))
        elif isinstance(plan, EvalPlan):
            nodes.append((node_id(plan.planned, argument),))
        else:
            raise OperandError(
                f"{argument!r} in a recording", rule="subjects in a recording must be names", fix="pass the plan itself"
            )
    names = [
        recording.label(argument_nodes[0]) if isinstance(argument, Expr) else argument
        for argument, argument_nodes in zip(arguments, nodes, strict=True)
    ]
    return Subjects(recording, tuple(names), tuple(nodes))


def operations(plan: AnyPlan, what: Iterable[Subject]) -> Subjects:
    """Return the nodes of expressions and names; raise OperandError for values, like tensors, that are not computed."""
    subject = subjects(plan, what)
    for name, nodes in zip(subject.names, subject.nodes, strict=True):
        if any(subject.recording.nodes.kind[node] in _UNCOMPUTED for node in nodes):
            raise OperandError(
                f"{name!r}, which is not computed",
                rule="arguments must be operations, calls or their names",
                fix="omit it",
            )
    return subject


def _nodes_named(recording: Recording, name: str) -> tuple[int, ...]:
    """Return the recorded operations whose path (scopes and operation name) contains ``name``.

    The full path of a scope matches only this scope: if there is a scope ``relu1``, its name does not match ``residual
    / relu1``.
    """
    nodes = recording.nodes
    name_parts = tuple(part.strip() for part in name.split(" / "))
    known: set[str] = set()
    matches: list[int] = []
    inside: list[int] = []
    """matches in the scope whose full path is ``name``"""
    for node in range(len(nodes)):
        if nodes.born[node] >= 0 or nodes.body[node] != 0 or nodes.kind[node] in _UNCOMPUTED:
            continue
        scopes = scope_path(recording, node)
        known.update(scopes, (recording.label(node), nodes.label[node]))
        paths = ((*scopes, recording.label(node)), (*scopes, nodes.label[node]))
        if scopes[: len(name_parts)] == name_parts:
            inside.append(node)
        if any(_contains(path, name_parts) for path in paths):
            matches.append(node)
    if not matches:
        raise UnknownNameError(
            name,
            kind="operation, layer or scope of this plan",
            known=known,
            fix="use one of these names, or the expression itself",
        )
    return tuple(inside or matches)


def _contains(path: tuple[str, ...], part: tuple[str, ...]) -> bool:
    return any(path[end - len(part) : end] == part for end in range(len(part), len(path) + 1))


_WORDS = {
    "kernels": "which operations one kernel computes",
    "batches": "which operations form a batch",
    "merging": "which nodes are merged",
}
"""what a stage decides, in a sentence"""


def declined_lines(subjects: Subjects, decides: str) -> list[str]:
    """Return a line with the cost of each declined decision about the subjects, costliest first.

    ``decides`` is what a stage must decide for its decisions to be returned, as in ``record.Stage``.

    If some decisions are about all arguments, only these are returned.
    """
    recording = subjects.recording
    if not any(row.decides == decides for row in recording.stages):
        return [f"no stage of this plan decides {_WORDS[decides]}"]
    provenance = recording.provenance
    relevant = []
    for decision in recording.declined:
        if recording.stages[decision.stage].decides != decides:
            continue
        decision_nodes = set(provenance.recorded(_decision_nodes(decision)))
        count = sum(not decision_nodes.isdisjoint(nodes) for nodes in subjects.nodes)
        if count:
            relevant.append((count, decision))
    about_all = [decision for count, decision in relevant if count == len(subjects.nodes)]
    shown = about_all or [decision for _, decision in relevant]
    lines = [_line(recording, decision) for decision in shown[:_DECLINED]]
    rest = len(shown) - _DECLINED
    return (
        [*lines, f"… and {rest:,} more"]
        if rest > 0
        else lines or [f"no rule that decides {_WORDS[decides]} declined anything"]
    )


def _decision_nodes(decision: Decision) -> list[int]:
    facts = [fact["node"] for fact in decision.facts.values() if isinstance(fact, dict)]
    return [*decision.subjects, *facts]


def _line(recording: Recording, decision: Decision) -> str:
    cost = decision.facts.get("estimated_cost_us", 0.0)
    return f"{decision_line(recording, decision)}" + (f", estimated to cost {micros_text(cost)}" if cost else "")
