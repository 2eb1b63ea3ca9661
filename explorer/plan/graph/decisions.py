"""The story while planning: what is decided, in which stages, and which nodes were put together."""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from explorer.core.ir.expr import Expr
from explorer.plan.graph.reasons import Facts, Reason, RuleInfo

_locations: dict[type, str] = {}


def location(cls: type) -> str:
    """Where a rule or pass is written: "plan/rewrite/rules/stability.py:12", or the cell; remembered."""
    if cls not in _locations:
        _locations[cls] = _find(cls)
    return _locations[cls]


def recorded_as(rule: object) -> tuple[str, type]:
    """The name under which a rule's or a pass's decisions are recorded, and the class that tells where it is."""
    if isinstance(rule, RuleInfo):
        return rule.name, rule.owner or RuleInfo
    return type(rule).__name__, type(rule)


def _find(cls: type) -> str:
    try:
        path, line = inspect.getsourcefile(cls) or "", inspect.getsourcelines(cls)[1]
    except (OSError, TypeError):
        return cls.__qualname__
    package = os.sep + "explorer" + os.sep
    short = path.rsplit(package, 1)[1] if package in path else os.path.basename(path)
    return f"{short}:{line}"


StageKind: TypeAlias = Literal["record", "rewrite", "order", "format", "memory"]


@dataclass(slots=True)
class PlanDecision:
    """A decision while planning: like record.Decision, with expressions for nodes."""

    stage: int
    rule: str
    applied: bool
    reason: Reason
    facts: Facts
    subjects: list[Expr]
    produced: tuple[Expr, ...] = ()
    rule_index: int = 0
    location: str = ""
    estimated_cost_us: float | None = None
    """for a declined decision the µs that it may cost; None: what its subjects take as kernels of their own"""
    unfused_edges: list[tuple[Expr, Expr]] = field(default_factory=list)
    """(operand, reader): for a decision not to fuse, values that are written and read again"""

    @property
    def code(self) -> str:
        """The code of the reason."""
        return self.reason.code


@dataclass(slots=True)
class PlanStage:
    """A stage while planning."""

    name: str
    kind: StageKind
    purpose: str
    first: int
    last: int
    live: tuple[Expr, ...]
    counts: dict[str, int] = field(default_factory=dict)
    micros: float = 0.0


@dataclass(slots=True)
class NodeGroup:
    """Nodes that a decision put together (record.Group)."""

    decision: int
    kind: str
    label: str
    members: list[Expr]
