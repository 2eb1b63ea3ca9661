"""Decisions that are made while planning.

A decision contains its reason, its expressions and its stage. A decision has three forms before it reaches the panel. A
rule returns `Applied` or `Declined` (plan/graph/reasons.py). The graph records it as a `PlanDecision`, which refers to
nodes by expression. The recorder (run/recording/recorder.py) converts expressions to ids and creates the row
`record.Decision`. Rows are created only if a recording is requested, and most evaluations request none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from explorer.core.ir.expr import Expr
from explorer.plan.graph.cost_model import kernel_cost, split_cost
from explorer.plan.graph.reasons import Facts, Reason, RuleInfo
from explorer.record.rows import Decides

StageKind: TypeAlias = Literal["record", "rewrite", "order", "format", "memory"]


@dataclass(slots=True)
class PlanDecision:
    """Decision about expressions; subjects may be added to a declined decision until its stage ends."""

    stage: int
    """index of the stage in which the decision was made"""
    info: RuleInfo
    """the rule that decided, or the criterion of a pass"""
    applied: bool
    reason: Reason
    given: Facts
    """facts that were known when the decision was made"""
    subjects: list[Expr]
    """nodes that the decision concerns"""
    produced: tuple[Expr, ...] = ()
    """nodes that replace the subjects"""
    rule_index: int = 0
    """position of the rule in its chain"""
    estimated_cost_us: float | None = None
    """if the decision was declined: its estimated cost in µs, if the rule reports one; see `cost_us`"""
    unfused_edges: list[tuple[Expr, Expr]] = field(default_factory=list)
    """if nodes were not fused: pairs (operand, reader), whose value is written to memory and read again"""
    remaining: Callable[[], Facts] | None = None
    """function that returns the other facts, until somebody reads them"""

    @property
    def facts(self) -> Facts:
        """All facts of the decision."""
        if self.remaining is not None:
            remaining, self.remaining = self.remaining, None
            self.given.update(remaining())
        return self.given

    @property
    def rule(self) -> str:
        """Name of the rule."""
        return self.info.name

    @property
    def code(self) -> str:
        """Code of the reason."""
        return self.reason.code

    @property
    def location(self) -> str:
        """Location of the rule, as "path:line"."""
        return self.info.location

    def cost_us(self) -> float:
        """Return the estimated cost of declining in µs, computed from the most precise data available.

        In order of precision, these are the estimate of the rule, the difference of two times in the facts, the time to
        write and read values between kernels, and the time of the subjects as separate kernels.
        """
        facts = self.facts
        if self.estimated_cost_us is not None:
            return self.estimated_cost_us
        for slower, faster in (("separate_us", "together_us"), ("before_us", "after_us")):
            if slower in facts and faster in facts:
                return max(0.0, float(facts[slower] - facts[faster]))
        if self.unfused_edges:
            return sum([split_cost(operand, reader) for operand, reader in self.unfused_edges])
        return sum([kernel_cost(node, node.operands) for node in self.subjects])


@dataclass(eq=False, slots=True)
class PlanStage:
    """A finished stage of planning: one run of a pass."""

    name: str
    """name of the pass; " again" is appended if the pass ran before"""
    kind: StageKind
    purpose: str
    first: int
    """index of the first decision of the stage"""
    last: int
    """index of the last decision of the stage, plus one"""
    live: tuple[Expr, ...]
    """nodes that the roots need after the stage, in topological order"""
    counts: dict[str, int]
    """statistics of the pass"""
    micros: float
    decides: Decides = ""
    limits: str = ""


@dataclass(eq=False, slots=True)
class NodeGroup:
    """Nodes that a decision grouped, as in record.Group; while the pass Inline runs, it adds members."""

    decision: int
    kind: Literal["kernel", "batch", "function"]
    members: list[Expr]
    name: str = ""
    """label, unless the operations are the label"""

    @property
    def label(self) -> str:
        """Label in diagrams; created on request, because most plans are not displayed."""
        return self.name or operations_label(self.members)


_SHOWN = 5
"""maximum number of operations in a label"""


def operations_label(nodes: Sequence[Expr]) -> str:
    """Return the names of a kernel's operations; if they are many, only the first ones and the last one."""
    names = [node.operation.label for node in nodes]
    return " · ".join(names if len(names) <= _SHOWN else [*names[: _SHOWN - 2], "…", names[-1]])
