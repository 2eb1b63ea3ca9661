"""Compiled expressions: planned once, run for any values of their parameters.

Training steps, nodes and predictions of a module are such programs. Unlike `EvalPlan`, nothing is recorded and no
result cache is asked: what counts is the time of a step of a few µs, so that memory is allocated once, at addresses
that stay the same, and operands are copied there.
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
    """Record an operand for which each run has a value."""
    return Parameter(type_, title)()


class Compiled:
    """Program of some expressions over parameters: called with arrays, it returns the values of its expressions.

    Operands on another device than cpu are arrays of NumPy's or of the device itself; results there are its arrays.
    ``memory`` holds arrays of parameters that are kept elsewhere; the others are given in their order.

    ``updates`` are new values of parameters in ``memory``, by parameter; a call computes them, and ``update`` makes
    them the values: an old value is overwritten only after everything that reads it. ``spares`` is memory for new
    values that cannot be written over the old ones, which several programs share.
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

    def __call__(self, *arrays: Any) -> list[Any]:
        """Run the program; results outside the memory are read-only. No parameter changes before ``update``."""
        self._program.put(arrays)
        self._executor.run(self._program, None)
        return self._program.take()

    def on_host(self, *arrays: Any) -> list[Array]:
        """Run the program and return all results as NumPy's arrays."""
        return [on_host(type_, result) for type_, result in zip(self.types, self(*arrays), strict=True)]

    def update(self) -> None:
        """Take over the new values of the last call. Raises RunError where memory runs out; else it cannot fail."""
        self._program.update()
