"""What-if analysis: the smallest change after which a declined rule would be applied.

Candidate edits come from counterfactuals.py and are planned for real, so that an answer is a fact about the planner and
not an estimate; planning is fast enough to try a dozen of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.plan.graph.decisions import PlanDecision
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.planner import Options, Plan
from explorer.record import Decision, Recording
from explorer.record.reasons import bytes_text, micros_text
from explorer.run.diagnosis.counterfactuals import CHANGES
from explorer.run.diagnosis.replan import (
    Counterfactual,
    Images,
    ReplanInput,
    neighbourhood,
    planned_input,
    recorded_input,
    replan,
)

_DEPTH = 3
"""levels of operands kept of a node that is neither in the recorded nor in the final graph"""
_FUSING = ("Epilogue", "ElementwiseChain", "Prologue")


@dataclass(frozen=True, slots=True)
class Attempt:
    """Change that was planned: whether the rule is applied now, and the plan's cost in µs and peak in bytes."""

    change: str
    flips: bool
    estimated_us: float
    peak_bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class WhatIf:
    """Changes tried for a declined decision, the smallest first, up to the one that applies the rule.

    Example: see ``ex.EvalPlan``.
    """

    declined: str
    estimated_us: float
    """cost of the unchanged graph; costs of changes that do more work are scaled to the same work"""
    peak_bytes: int
    attempts: tuple[Attempt, ...]

    @property
    def change(self) -> Attempt | None:
        """The change after which the rule is applied; None if no small one is known."""
        return next((tried for tried in self.attempts if tried.flips), None)

    def __repr__(self) -> str:
        return str(self).rstrip()

    def __str__(self) -> str:
        lines = [f"✗ {self.declined}"]
        lines += [f"  {self._line(tried)}" for tried in self.attempts]
        if self.change is None:
            lines.append("  no small change is known that applies it")
        return "\n".join(lines) + "\n"

    def _line(self, tried: Attempt) -> str:
        price = f"estimated {micros_text(self.estimated_us)} → {micros_text(tried.estimated_us)}"
        peak = f"peak {bytes_text(self.peak_bytes)} → {bytes_text(tried.peak_bytes)}"
        return (
            f"{'✓' if tried.flips else '·'} {tried.change}: {price}, {peak}{'' if tried.flips else '; still declined'}"
        )


def what_if(planned: Plan, recording: Recording, what: Decision | Expr) -> WhatIf:
    """Try the changes known for a declined decision, the smallest first, until the rule is applied.

    For an expression, the costliest of its declined decisions is used. Raises OperandError for a decision that was
    applied or belongs to another plan, and for an expression without a declined decision.
    """
    number = _declined_decision(planned, recording, what)
    decision, sentence = planned.graph.decisions[number], recording.reason(recording.decisions[number])
    if decision.applied:
        raise OperandError(
            f"what it would take for {decision.rule} [{decision.code}]",
            rule="the decision must be a declined one; this one was applied",
            fix="plan.what_if(plan.recording.declined[0])",
        )
    graph, options = planned.graph, planned.options
    stage = graph.stages[decision.stage].name.removesuffix(" again")
    changes = CHANGES.get((stage, decision.code))
    for base, node in _bases(graph, decision, stage) if changes is not None else ():
        before, images = replan(base, options)
        # In this base something else decided, so that an edit of it would prove nothing.
        if not _still_declined(before, decision, images[node.uid]):
            continue
        assert changes is not None
        tried = [*_try(changes(decision, node, base, graph), decision, node, base, options)]
        return WhatIf(sentence, _price(before), before.schedule.peak, tuple(tried))
    return WhatIf(sentence, _price(planned), planned.schedule.peak, ())


def _declined_decision(planned: Plan, recording: Recording, what: Decision | Expr) -> int:
    """Return the number of a decision, or of the costliest declined one about an expression."""
    if isinstance(what, Expr):
        choices = planned.graph.decisions
        numbers = [
            number
            for number, decision in enumerate(choices)
            if not decision.applied and any(node is what for node in decision.subjects)
        ]
        if not numbers:
            raise OperandError(
                f"what it would take for {what!r}",
                rule="a rule must have been declined for the expression; none was",
                fix="see all its decisions: plan.explain(expression)",
            )
        return max(numbers, key=lambda number: recording.decisions[number].facts["estimated_cost_us"])
    number = next((number for number, known in enumerate(recording.decisions) if known is what), -1)
    if number < 0:
        raise OperandError(
            f"what it would take for {what!r:.80}",
            rule="the decision must belong to this plan's recording",
            fix="plan.what_if(plan.recording.declined[0])",
        )
    return number


def _bases(graph: PlanGraph, decision: PlanDecision, stage: str) -> Iterator[tuple[ReplanInput, Expr]]:
    """Yield the graphs to change and the node in each: the user's, the final one, or the node with its operands."""
    reader = next((node for node in decision.subjects if node.operands), decision.subjects[0])
    # A convolution's algorithm depends on nothing but the node itself.
    if stage == "algorithms":
        yield neighbourhood(graph, reader, 0), reader
        return
    named = {reader.uid, *[fact.uid for fact in decision.facts.values() if isinstance(fact, Expr)]}
    for base in (recorded_input(graph), planned_input(graph)):
        if named <= {node.uid for node in base.nodes}:
            yield base, reader
    yield neighbourhood(graph, reader, _DEPTH), reader


def _try(
    changes: Iterator[Counterfactual], decision: PlanDecision, node: Expr, base: ReplanInput, options: Options
) -> Iterator[Attempt]:
    for change in changes:
        try:
            after, images = replan(base, options, change)
        except OperandError:
            continue  # the edit is not legal here; try the next one
        fell = change.shows(after, images) if change.shows else _taken(after, decision, node, images)
        # Scaled to the same work: twice the images for less than twice the time is a gain.
        yield Attempt(change.text, fell, _price(after) / change.work, after.schedule.peak)
        if fell:
            return


def _still_declined(planned: Plan, decision: PlanDecision, node: Expr) -> bool:
    return any(
        other.rule == decision.rule
        and other.code == decision.code
        and any(subject is node for subject in other.subjects)
        for other in planned.graph.decisions
        if not other.applied
    )


def _taken(planned: Plan, decision: PlanDecision, node: Expr, images: Images) -> bool:
    """Whether the rule is now applied to the node; for fusion, whether it shares a kernel with one of its operands."""
    image = images[node.uid]
    if decision.rule in _FUSING:
        if _still_declined(planned, decision, image):
            return False
        for kernel in planned.schedule.kernels:
            if any(member is image for member in kernel.nodes):
                inside = {member.uid for member in kernel.nodes}
                return any(operand.uid in inside for operand in planned.graph.inputs[image.uid])
        return False
    return any(
        other.applied and other.rule == decision.rule and any(subject is image for subject in other.subjects)
        for other in planned.graph.decisions
    )


def _price(planned: Plan) -> float:
    return sum([kernel.cost.estimate for kernel in planned.schedule.kernels])
