"""Inspectable plans: the questions that a plan answers, whoever made and ran it.

`EvalPlan` is one: it plans and runs, and every question here is answered from its plan and its recording alone. Texts,
pictures and comparisons are made in packages above, which enter their functions as hooks, so that a program that only
evaluates imports none of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from explorer.core.checked_functions import named_methods
from explorer.core.ir.expr import Expr
from explorer.core.ir.hooks import ComparedPlans, hooks
from explorer.plan.planner import Plan
from explorer.plan.schedule.task_assignment import BANDWIDTH, LATENCY, OVERHEAD
from explorer.record import Decision, Recording
from explorer.run.diagnosis.reproducer import reproducer
from explorer.run.diagnosis.scale_estimate import ScaleEstimate, scale_estimate
from explorer.run.diagnosis.what_if import WhatIf, what_if

if TYPE_CHECKING:
    import graphviz  # type: ignore[import-untyped]  # the package has no types


@named_methods
class InspectablePlan(ABC):
    """Plan that answers questions about itself."""

    @property
    @abstractmethod
    def planned(self) -> Plan:
        """The planned graph, its schedule and its decisions."""

    @property
    @abstractmethod
    def recording(self) -> Recording:
        """Everything that happened, as plain data."""

    def why(self, one: Expr, other: Expr) -> str:
        """Return the decisions about two expressions as text, such as why they are not fused; or what became of each.

        Example: ``print(plan.why(product, bias))``.
        """
        return hooks.why(self, one, other)

    def explain(self, what: Expr | None = None) -> str:
        """Return the decisions as text, all or those about one expression; after a run with the time of each batch."""
        return hooks.explain(self, what)

    def to_graphviz(self, stage: str | None = None) -> graphviz.Digraph:
        """Return the graph after a stage ("recorded", "fuse", …; None: the end) as a ``graphviz.Digraph``.

        Fused kernels are clusters; ``.source`` is the text. Raises UnknownNameError for an unknown stage.
        """
        return hooks.to_graphviz(self, stage)

    def compare(self, other: InspectablePlan | Recording) -> ComparedPlans:
        """Compare this plan with another one, of the same graph or not: as text, pictures and views side by side."""
        return hooks.compare(self, other)

    def what_if(self, what: Decision | Expr) -> WhatIf:
        """Find the smallest change after which a declined decision would be applied; prices are given for both.

        ``what`` is one of ``recording.declined``, or an expression; for an expression, its costliest one is used.
        """
        return what_if(self.planned, self.recording, what)

    def estimate(
        self, workers: int, bandwidth: float = BANDWIDTH, latency: float = LATENCY, overhead: float = OVERHEAD
    ) -> ScaleEstimate:
        """Estimate the plan on several workers, on paper: time, critical path, bytes sent, and who waits, as lanes.

        ``bandwidth`` of a worker's link in MB/s, ``latency`` of a message and ``overhead`` of a task in µs; by default
        those of Dask between processes of one machine. Chains of kernels go to the worker that would end them first.
        Members of ``ex.map`` are divided where that pays; those of a batch found by the plan are one kernel: plan
        ``without="batch"`` to see them spread. Raises OperandError.

        >>> x = ex.tensor(np.ones((400, 400)))
        >>> plan = ex.EvalPlan(without="batch")
        >>> handles = [plan.register(ex.tanh(x * n @ x).sum()) for n in range(1, 9)]
        >>> estimate = plan.prepare().estimate(workers=4, bandwidth=1000, latency=100, overhead=100)
        >>> estimate.worthwhile, estimate.network.workers
        (True, 4)
        """
        return scale_estimate(self.planned, workers, bandwidth, latency, overhead)

    def reproducer(self, decision: Decision) -> str:
        """Return Python source of a notebook cell that shows one of ``recording.decisions`` on a minimal graph.

        The cell needs only ``explorer as ex`` and ``numpy as np``, and asserts the decision.
        """
        return reproducer(self.planned, self.recording, decision)
