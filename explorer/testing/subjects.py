"""Subjects of assertions: expressions, operations and scopes as nodes of a recording, and the decisions on them.

Assertions read the recording, which names what the program wrote, and not the planned graph, in which recorded nodes
may be gone.
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
"""expression, or name of operations, layers, scopes or operators of a file: ``tanh``, ``block / tanh``, ``layer1``"""
AnyPlan: TypeAlias = EvalPlan | Recording
_UNCOMPUTED = ("constant", "leaf", "input")
"""kinds of nodes that no kernel computes"""
_DECLINED = 8
"""maximum number of declined decisions that a failure lists"""


class Subjects(NamedTuple):
    """Recorded nodes that an assertion is about: those of each argument, in the order of recording."""

    recording: Recording
    names: tuple[str, ...]
    nodes: tuple[tuple[int, ...], ...]

    @property
    def all_nodes(self) -> set[int]:
        """The nodes of all arguments together."""
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
    """Return the kernels of a recording; raises OperandError for one that was never planned."""
    if recording.schedule is None:
        raise OperandError(
            "a recording without a schedule", rule="plan must be a plan, not the recorded expressions alone",
            fix="plan.prepare()",
        )  # fmt: skip
    return recording.schedule.kernels


def subjects(plan: AnyPlan, what: Iterable[Subject]) -> Subjects:
    """Return the nodes that expressions and names stand for in a plan.

    Raises UnknownNameError for a name that nothing has, OperandError for an expression that the plan does not know.
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
            nodes.append(_named(recording, argument))
        elif isinstance(plan, EvalPlan):
            nodes.append((node_id(plan.planned, argument),))
        else:
            raise OperandError(
                f"{argument!r} in a recording", rule="a recording must be asked by names", fix="give the plan itself"
            )
    names = [
        recording.label(argument_nodes[0]) if isinstance(argument, Expr) else argument
        for argument, argument_nodes in zip(arguments, nodes, strict=True)
    ]
    return Subjects(recording, tuple(names), tuple(nodes))


def operations(plan: AnyPlan, what: Iterable[Subject]) -> Subjects:
    """Return the same; raises OperandError for an expression that is given, such as a tensor, and never computed."""
    subject = subjects(plan, what)
    for name, nodes in zip(subject.names, subject.nodes, strict=True):
        if any(subject.recording.nodes.kind[node] in _UNCOMPUTED for node in nodes):
            raise OperandError(
                f"{name!r}, which is given and not computed",
                rule="arguments must be operations or calls, or names of some",
                fix="leave it out",
            )
    return subject


def _named(recording: Recording, name: str) -> tuple[int, ...]:
    """Return the recorded operations whose path of scopes, with their own name at its end, has ``name`` in it.

    A scope's path from the outermost one is that scope alone: ``relu1`` is not ``residual / relu1`` if both are there.
    """
    nodes = recording.nodes
    wanted = tuple(part.strip() for part in name.split(" / "))
    known: set[str] = set()
    matches: list[int] = []
    inside: list[int] = []
    """those in the scope whose whole path this is"""
    for node in range(len(nodes)):
        if nodes.born[node] >= 0 or nodes.body[node] != 0 or nodes.kind[node] in _UNCOMPUTED:
            continue
        scopes = scope_path(recording, node)
        known.update(scopes, (recording.label(node), nodes.label[node]))
        paths = ((*scopes, recording.label(node)), (*scopes, nodes.label[node]))
        if scopes[: len(wanted)] == wanted:
            inside.append(node)
        if any(_contains(path, wanted) for path in paths):
            matches.append(node)
    if not matches:
        raise UnknownNameError(
            name,
            kind="operation, layer or scope of this plan",
            known=known,
            fix="give one of these names, or the expression itself",
        )
    return tuple(inside or matches)


def _contains(path: tuple[str, ...], part: tuple[str, ...]) -> bool:
    return any(path[end - len(part) : end] == part for end in range(len(part), len(path) + 1))


def declined_lines(subjects: Subjects, stage: str) -> list[str]:
    """Return the declined decisions of a stage about the subjects, the costliest first, each with its cost.

    Decisions about all arguments come alone, if there are any.
    """
    recording = subjects.recording
    if not any(row.name.removesuffix(" again") == stage for row in recording.stages):
        return [f"this plan has no stage {stage}: EvalPlan(without=…) leaves it out"]
    provenance = recording.provenance
    about = []
    for decision in recording.declined:
        if recording.stages[decision.stage].name.removesuffix(" again") != stage:
            continue
        touched = set(provenance.recorded(_concerned(decision)))
        count = sum(not touched.isdisjoint(nodes) for nodes in subjects.nodes)
        if count:
            about.append((count, decision))
    together = [decision for count, decision in about if count == len(subjects.nodes)]
    shown = together or [decision for _, decision in about]
    lines = [_line(recording, decision) for decision in shown[:_DECLINED]]
    rest = len(shown) - _DECLINED
    return (
        [*lines, f"… and {rest:,} more"] if rest > 0 else lines or [f"no rule of the stage {stage} declined anything"]
    )


def _concerned(decision: Decision) -> list[int]:
    facts = [fact["node"] for fact in decision.facts.values() if isinstance(fact, dict)]
    return [*decision.subjects, *facts]


def _line(recording: Recording, decision: Decision) -> str:
    cost = decision.facts.get("estimated_cost_us", 0.0)
    return f"{decision_line(recording, decision)}" + (f", estimated to cost {micros_text(cost)}" if cost else "")
