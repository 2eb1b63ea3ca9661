"""Decisions while planning: what was decided, why, about which expressions, and in which stage.

A decision has three forms on its way to the panel. A rule answers `Applied` or `Declined` (plan/graph/reasons.py); the
graph enters that as a `PlanDecision`, in which expressions stand for nodes; the recorder (run/recording/recorder.py)
turns expressions into ids, which gives the row `record.Decision`. Rows are written only when somebody asks for a
recording: most evaluations never do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from explorer.core.ir.expr import Expr
from explorer.plan.graph.cost_model import kernel_cost, split_cost
from explorer.plan.graph.reasons import Facts, Reason, RuleInfo

StageKind: TypeAlias = Literal["record", "rewrite", "order", "format", "memory"]


@dataclass(slots=True)
class PlanDecision:
    """A decision about expressions; a declined one gains subjects while its stage lasts."""

    stage: int
    """number of the stage in which it was taken"""
    info: RuleInfo
    """the rule, or the criterion of a pass, that decided"""
    applied: bool
    reason: Reason
    facts: Facts
    subjects: list[Expr]
    """the nodes that it is about"""
    produced: tuple[Expr, ...] = ()
    """the nodes that stand for them from now on"""
    rule_index: int = 0
    """the rule's place in its chain"""
    estimated_cost_us: float | None = None
    """for a declined decision the µs that it may cost, as its rule says; None: see `cost_us`"""
    unfused_edges: list[tuple[Expr, Expr]] = field(default_factory=list)
    """(operand, reader): for a decision not to fuse, values that are written and read again"""

    @property
    def rule(self) -> str:
        """The name of the rule."""
        return self.info.name

    @property
    def code(self) -> str:
        """The code of the reason."""
        return self.reason.code

    @property
    def location(self) -> str:
        """Place of the rule, as "file:line"."""
        return self.info.location

    def cost_us(self) -> float:
        """Return the µs that a declined decision may cost; the most precise known figure counts.

        That is the estimate of its rule, else the difference of the prices among its facts, else the time to write and
        read values between kernels, else the time of the subjects as kernels of their own.
        """
        facts = self.facts
        if self.estimated_cost_us is not None:
            return self.estimated_cost_us
        for dear, cheap in (("separate_us", "together_us"), ("before_us", "after_us")):
            if dear in facts and cheap in facts:
                return max(0.0, float(facts[dear] - facts[cheap]))
        if self.unfused_edges:
            return sum([split_cost(operand, reader) for operand, reader in self.unfused_edges])
        return sum([kernel_cost(node, node.operands) for node in self.subjects])


@dataclass(frozen=True, slots=True)
class PlanStage:
    """A stage of planning, which is the run of one pass, after it has ended."""

    name: str
    """the name of the pass; with " again" where it ran before"""
    kind: StageKind
    purpose: str
    first: int
    """number of its first decision"""
    last: int
    """one more than the number of its last decision"""
    live: tuple[Expr, ...]
    """the nodes that the roots need after it, in topological order"""
    counts: dict[str, int]
    """figures that the pass counts"""
    micros: float


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that a decision put together, as record.Group; inlining adds members while its pass runs."""

    decision: int
    kind: Literal["kernel", "batch", "function"]
    label: str
    members: list[Expr]
