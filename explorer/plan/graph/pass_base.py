"""Passes: the steps of the planner, and the contract that each keeps.

The planner owns the stages: it asks a pass whether it has work, runs it, refreshes the graph, and closes a stage with
the decisions that the pass entered. A pass itself only reads the graph, enters decisions, and substitutes nodes or
puts another schedule into the graph. It computes no values, and two runs over one graph decide the same.
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

PassKind: TypeAlias = Literal["rewrite", "order", "format", "memory"]
"""the part of a plan that a stage changes: its graph; its schedule's order; the layout or the places of results"""
KINDS: tuple[PassKind, ...] = get_args(PassKind)


class Pass(ABC):
    """Step of the planner, for users to extend: a frozen dataclass whose fields are its options.

    A subclass sets ``name``, by which it is left out (``without=["dedup"]``), and defines ``run``. The first line of
    its docstring is the purpose that its stage shows. Passes of kind "rewrite" come first in a pipeline, then the one
    of kind "order", which puts ordered kernels into ``graph.schedule``; those of kind "format" put other kernels in
    the place of some; the one of kind "memory" completes the schedule with the places of results.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class CountExp(ex.Pass):
    ...     "Say how many exponentials there are."
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
    required: ClassVar[bool] = False
    """whether a schedule needs it"""
    numerics: ClassVar[Numerics] = "exact"
    """what the pass does to numbers (plan/graph/numerics.py)"""
    purpose: ClassVar[str] = ""
    """the first line of the docstring"""
    info: ClassVar[RuleInfo]
    """under which decisions of the pass are recorded: the class's name, the purpose"""

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
                rule="the first line of the docstring must say the purpose of the pass: its stage shows it",
                fix='"""Say what the pass is for."""',
            )
        cls.purpose = purpose
        cls.info = RuleInfo(cls.__name__, purpose, cls)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def has_work(self, graph: PlanGraph) -> bool:
        """Whether the pass has anything to look at; without, it has no stage."""
        return True

    @abstractmethod
    def run(self, graph: PlanGraph) -> None:
        """Enter decisions, and substitute nodes or put another schedule into ``graph.schedule``."""

    def counts(self, graph: PlanGraph) -> Mapping[str, int]:
        """Figures of the graph after the pass, for its stage, in addition to nodes, operations, flops and bytes."""
        return {}


@dataclass(frozen=True)
class Again:
    """A pass that runs once more, where one of the stages named in ``after`` has changed the graph.

    Example: see ``ex.default_passes``.
    """

    repeated: Pass
    after: tuple[str, ...]
