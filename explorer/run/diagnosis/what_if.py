"""What would it take? For a refusal the smallest change that makes it fall, found by planning the changed graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.plan.graph.decisions import Choice
from explorer.plan.graph.plan_graph import Graph
from explorer.plan.planner import Options, Planned
from explorer.record import Decision, Recording
from explorer.record.reasons import bytes_text, micros_text
from explorer.run.diagnosis.counterfactuals import CHANGES
from explorer.run.diagnosis.replan import Base, Change, Images, around, final, planned_again, recorded

_DEPTH = 3
"""levels of operands of a refused node that is not in the recorded or the final graph"""
_FUSING = ("Epilogue", "ElementwiseChain", "Prologue")


@dataclass(frozen=True, slots=True)
class Tried:
    """A change that was planned: whether the refusal fell, and what the plan takes, in µs and in bytes."""

    change: str
    flips: bool
    estimated_us: float
    peak_bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class WhatIf:
    """What it would take for a refusal to fall: the changes that were tried, the smallest first, up to the one."""

    refusal: str
    estimated_us: float
    """of the graph that was changed, as it is; where a change does more work, prices are for the same work"""
    peak_bytes: int
    tried: tuple[Tried, ...]

    @property
    def change(self) -> Tried | None:
        """The change that makes the refusal fall; None where nothing small does."""
        return next((tried for tried in self.tried if tried.flips), None)

    def __repr__(self) -> str:
        return str(self).rstrip()

    def __str__(self) -> str:
        lines = [f"✗ {self.refusal}"]
        lines += [f"  {self._line(tried)}" for tried in self.tried]
        if self.change is None:
            lines.append("  nothing small flips it")
        return "\n".join(lines) + "\n"

    def _line(self, tried: Tried) -> str:
        price = f"{micros_text(self.estimated_us)} → {micros_text(tried.estimated_us)}"
        peak = f"peak {bytes_text(self.peak_bytes)} → {bytes_text(tried.peak_bytes)}"
        return (
            f"{'✓' if tried.flips else '·'} {tried.change}: {price}, {peak}{'' if tried.flips else '; still refused'}"
        )


def what_if(planned: Planned, recording: Recording, what: Decision | Expr) -> WhatIf:
    """Try the changes that are known for a refusal, the smallest first, until it falls.

    Of an expression it is the costliest refusal. Raises OperandError for a decision that was applied, or is another
    plan's, and for an expression of which nothing was refused.
    """
    number = _refusal_of(planned, recording, what)
    choice, refusal = planned.graph.choices[number], recording.reason(recording.decisions[number])
    if choice.applied:
        raise OperandError(
            f"what it would take for {choice.link} [{choice.code}]",
            rule="this decision was applied: what_if is asked of refusals",
            fix="plan.recording.refusals lists them, the costliest first",
        )
    graph, options = planned.graph, planned.options
    stage = graph.chapters[choice.stage].name.removesuffix(" again")
    changes = CHANGES.get((stage, choice.code))
    for base, node in _bases(graph, choice, stage) if changes is not None else ():
        before, images = planned_again(base, options)
        if not _refused(before, choice, images[node.uid]):
            continue
        assert changes is not None
        tried = [*_try(changes(choice, node, base, graph), choice, node, base, options)]
        return WhatIf(refusal, _price(before), before.schedule.peak, tuple(tried))
    return WhatIf(refusal, _price(planned), planned.schedule.peak, ())


def _refusal_of(planned: Planned, recording: Recording, what: Decision | Expr) -> int:
    """The number of a decision, or of the costliest refusal about an expression."""
    if isinstance(what, Expr):
        choices = planned.graph.choices
        found = [
            number
            for number, choice in enumerate(choices)
            if not choice.applied and any(node is what for node in choice.subjects)
        ]
        if not found:
            raise OperandError(
                f"what it would take for {what!r}",
                rule="what_if is asked of refusals, and nothing about this expression was refused",
                fix="plan.explain(expression) tells what became of it",
            )
        return max(found, key=lambda number: recording.decisions[number].facts["lost_us"])
    number = next((number for number, known in enumerate(recording.decisions) if known is what), -1)
    if number < 0:
        raise OperandError(
            f"what it would take for {what!r:.80}",
            rule="a plan is asked about its own decisions",
            fix="plan.recording.refusals lists them, the costliest first",
        )
    return number


def _bases(graph: Graph, choice: Choice, stage: str) -> Iterator[tuple[Base, Expr]]:
    """Graphs to change, and the refused node in each: the user's, the final one, or the node and what it reads."""
    reader = next((node for node in choice.subjects if node.operands), choice.subjects[0])
    if stage == "algorithms":
        yield around(graph, reader, 0), reader
        return
    named = {reader.uid, *[fact.uid for fact in choice.facts.values() if isinstance(fact, Expr)]}
    for base in (recorded(graph), final(graph)):
        if named <= {node.uid for node in base.nodes}:
            yield base, reader
    yield around(graph, reader, _DEPTH), reader


def _try(changes: Iterator[Change], choice: Choice, node: Expr, base: Base, options: Options) -> Iterator[Tried]:
    for change in changes:
        try:
            after, images = planned_again(base, options, change)
        except OperandError:
            continue  # an illegal program is no change that could be made
        fell = change.shows(after, images) if change.shows else _taken(after, choice, node, images)
        yield Tried(change.text, fell, _price(after) / change.work, after.schedule.peak)
        if fell:
            return


def _refused(planned: Planned, choice: Choice, node: Expr) -> bool:
    return any(
        other.link == choice.link and other.code == choice.code and any(subject is node for subject in other.subjects)
        for other in planned.graph.choices
        if not other.applied
    )


def _taken(planned: Planned, choice: Choice, node: Expr, images: Images) -> bool:
    """Whether the node is now a subject of what its link does; where it fuses, in one kernel with what it reads."""
    image = images[node.uid]
    if choice.link in _FUSING:
        if _refused(planned, choice, image):
            return False
        for kernel in planned.schedule.kernels:
            if any(member is image for member in kernel.nodes):
                inside = {member.uid for member in kernel.nodes}
                return any(operand.uid in inside for operand in planned.graph.inputs[image.uid])
        return False
    return any(
        other.applied and other.link == choice.link and any(subject is image for subject in other.subjects)
        for other in planned.graph.choices
    )


def _price(planned: Planned) -> float:
    return sum([kernel.estimate for kernel in planned.schedule.kernels])
