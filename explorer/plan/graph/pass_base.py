"""Passes, the steps of the planner, and the contract that each pass must keep.

The planner manages the stages. It calls ``has_work`` of a pass, runs the pass, refreshes the graph, and ends the stage
with the decisions that the pass recorded. A pass only reads the graph, records decisions, and substitutes nodes or
replaces the graph's schedule. It computes no values. It makes the same decisions each time it runs on the same graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

from explorer.core.attributes import check_names
from explorer.core.errors import DeclarationError
from explorer.plan.graph.numerics import Numerics
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import RuleInfo
from explorer.record.rows import Decides

PassKind: TypeAlias = Literal["rewrite", "order", "format", "memory"]
"""the part of a plan that a stage changes: the graph, the order of kernels, memory formats, or memory offsets"""
KINDS: tuple[PassKind, ...] = get_args(PassKind)


class Pass(ABC):
    """Base class of passes, the steps of the planner, for users to extend.

    A subclass is a frozen dataclass whose fields are its options. It defines ``run`` and sets ``name``. The name can be
    used to exclude the pass (``without=["dedup"]``). The first line of the docstring is shown as the purpose of its
    stage. A pipeline starts with passes of kind "rewrite". The pass of kind "order" then stores the ordered kernels in
    ``graph.schedule``, passes of kind "format" replace some of the kernels, and the pass of kind "memory" completes the
    schedule with memory offsets.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class CountExp(ex.Pass):
    ...     "Count the exponentials."
    ...     name = "count_exp"
    ...     counted = ex.Reason("counted", "The graph has {count:exponential}.")
    ...
    ...     def run(self, graph):
    ...         nodes = [node for node in graph.live if node.operation.name == "exp"]
    ...         if nodes:
    ...             graph.decide(self, self.counted, {"count": len(nodes)}, nodes)
    >>> plan = ex.EvalPlan(passes=[CountExp(), *ex.default_passes()])
    >>> handle = plan.register(ex.exp(ex.exp(ex.tensor(1.0))))
    >>> plan.prepare().recording.decisions[0].facts
    {'count': 2}
    """

    name: ClassVar[str]
    kind: ClassVar[PassKind] = "rewrite"
    decides: ClassVar[Decides] = ""
    """what the decisions of the pass determine, as in ``record.Stage``"""
    limits: ClassVar[str] = ""
    """what a kernel can contain, if the pass decides kernels, as a clause: "a kernel fuses two operations" """
    required: ClassVar[bool] = False
    """whether every pipeline must contain the pass"""
    numerics: ClassVar[Numerics] = "exact"
    """class of the changes to floating-point numbers (plan/graph/numerics.py)"""
    purpose: ClassVar[str] = ""
    """first line of the docstring"""
    info: ClassVar[RuleInfo]
    """name and purpose with which the decisions of the pass are recorded"""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_names(cls, Pass, "the pass")
        if not isinstance(getattr(cls, "name", None), str) or not cls.name:
            raise DeclarationError(
                f"pass {cls.__name__} without a name",
                rule="a pass must have a name",
                fix=f'name = "{cls.__name__.lower()}"',
            )
        if cls.kind not in KINDS:
            raise DeclarationError(
                f"pass {cls.__name__} of kind {cls.kind!r}",
                rule=f"the kind of a pass must be one of {', '.join(KINDS)}",
                fix='kind = "rewrite"',
            )
        purpose = (cls.__doc__ or "").strip().split("\n")[0]
        if not purpose:
            raise DeclarationError(
                f"pass {cls.__name__} without a docstring",
                rule="the first line of the docstring must state the purpose of the pass, which its stage shows",
                fix='"""Say what the pass is for."""',
            )
        cls.purpose = purpose
        cls.info = RuleInfo(cls.__name__, purpose, cls)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def has_work(self, graph: PlanGraph) -> bool:
        """Return whether the pass has work to do; if not, no stage is recorded."""
        return True

    @abstractmethod
    def run(self, graph: PlanGraph) -> None:
        """Record decisions, and substitute nodes or replace ``graph.schedule``."""

    def counts(self, graph: PlanGraph) -> Mapping[str, int]:
        """Return statistics of the graph after the pass.

        Its stage shows them next to nodes, operations, flops and bytes.
        """
        return {}


@dataclass(frozen=True)
class Again:
    """Step that runs a pass again if one of the stages in ``after`` changed the graph.

    Example: see ``ex.default_passes``.
    """

    repeated: Pass
    after: tuple[str, ...]
