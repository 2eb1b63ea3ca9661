"""Programs that write over their parameters: a training step, whose updates are made when nothing can fail any more.

Executors run all kernels but the updates, which the plan has put at the end (plan/passes/update_in_place.py). The
caller then looks at the results, and has the updates made, or not. So a run that fails, is interrupted, or has a result
that the caller refuses leaves all parameters as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from explorer.core.errors import RunError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Array
from explorer.plan.passes.update_in_place import Updates
from explorer.plan.planner import Plan
from explorer.run.execution.kernel_failure import failure
from explorer.run.execution.program import BoundRun, Program


class UpdatingProgram(Program):
    """Program over parameters in memory of the caller, some of which its plan updates in place."""

    def __init__(self, planned: Plan, held: Mapping[Expr, Array]) -> None:
        updates = planned.graph.notes(Updates).parameters
        memory = {node.uid: array for node, array in held.items()}
        written = {
            kernel.result: memory[updates[kernel.result.uid].uid]
            for kernel in planned.schedule.kernels
            if kernel.result.uid in updates
        }
        super().__init__(planned, held={**held, **written})
        schedule = planned.schedule
        # The pass order puts updates behind all other kernels.
        first = len(schedule.kernels) - len(written)
        columns = ("kernels", "picks", "levels", "chains", "runs_until", "placements")
        # The operands of updates are results, too: workers send them here.
        read = [node for kernel in schedule.kernels[first:] for node in kernel.reads]
        roots = [root for root in dict.fromkeys([*schedule.roots, *read]) if root not in written]
        cut: dict[str, Any] = {name: getattr(schedule, name)[:first] for name in columns}
        self._whole, self._updates = planned, self.runners[first:]
        self.planned = replace(planned, schedule=replace(schedule, roots=tuple(roots), **cut))
        self.runners = self.runners[:first]
        self._bound_updates: BoundRun | None = None

    def update(self) -> None:
        """Write over the parameters, after a run; while it goes on, some have new values and some old ones.

        Raises RunError where memory runs out: their values are then of no use.
        """
        times: list[int] = []
        bound = self._bound_updates
        try:
            with np.errstate(all="ignore"):
                if bound is not None and bound.is_of(self._updates):
                    bound.run(times)
                else:
                    times.append(0)
                    for runner, slot in self._updates:
                        self.values[slot] = runner(self.values)
                        times.append(0)
                    self._bound_updates = BoundRun(self._updates, self.values)
        except Exception as error:
            index, operation = len(times) - 1, bound.take_failed() if bound is not None else None
            failed = failure(self._whole, len(self.runners) + index, self._updates[index][0], error, operation)
            raise RunError(
                f"an update in place: {failed.given}",
                rule="all parameters must be updated, and some were before this one failed",
                fix='module.restore("run.npz"), a checkpoint',
            ) from error
