"""Compiled expressions, which are planned once and run for any values of their parameters.

Training steps, nodes and predictions of a module are compiled expressions. Unlike `EvalPlan`, they record nothing and
use no result cache, because a step may take only a few µs. Memory is allocated once, and operands are copied there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Parameter
from explorer.core.types.device_copies import on_host
from explorer.core.types.tensor_type import AnyType, Array
from explorer.plan.options import Options
from explorer.plan.passes import UpdateInPlace
from explorer.plan.planner import plan
from explorer.record.gc_pause import gc_paused
from explorer.run.execution.binding import step_binding
from explorer.run.execution.executors import EXECUTORS, RegisteredExecutor
from explorer.run.execution.program import Program

SIMPLE = EXECUTORS["simple"]


def parameter(type_: AnyType, title: str) -> Expr:
    """Record an operand called ``title``, whose value is passed to each run."""
    return Parameter(type_, title)()


class Compiled:
    """Program that computes expressions from parameters; calling it with arrays returns the values of the expressions.

    On a device other than cpu, operands may be NumPy arrays or arrays of the device; results are arrays of the device.
    ``memory`` contains the arrays of some parameters. The values of all others are passed to each call, in order.

    ``updates`` maps parameters in ``memory`` to their new values, which a call computes and ``update`` makes current.
    An old value is overwritten only after its last reader has run. ``spares`` is memory for new values that cannot
    overwrite the old ones; several programs share it.
    """

    def __init__(
        self,
        results: Sequence[Expr],
        parameters: Sequence[Expr],
        memory: Mapping[Expr, Any] | None = None,
        executor: RegisteredExecutor = SIMPLE,
        options: Options | None = None,
        updates: Mapping[Expr, Expr] | None = None,
        spares: dict[int, Array] | None = None,
    ) -> None:
        updates = updates or {}
        roots = [*results, *updates.values()]
        options = options or Options(lanes=executor.lanes)
        if updates:
            options = options.with_fields(UpdateInPlace, pairs=tuple(updates.items()))
        self.types = [root.tensor_type for root in roots]
        self._executor = executor
        with gc_paused():
            planned = plan(roots, options)
            binding = step_binding(planned, parameters, memory or {}, updates, {} if spares is None else spares)
            self._program = Program(planned, binding)
        self._program.timed = False

    def __call__(self, *arrays: Any) -> list[Any]:
        """Run the program and return read-only results; no parameter changes until ``update``."""
        self._program.put(arrays)
        self._executor.run(self._program, None)
        return self._program.take()

    def on_host(self, *arrays: Any) -> list[Array]:
        """Run the program and return all results as NumPy arrays."""
        return [on_host(type_, result) for type_, result in zip(self.types, self(*arrays), strict=True)]

    def update(self) -> None:
        """Make the last call's new values current; raise RunError if memory runs out, the only possible failure."""
        self._program.update()
