"""Compiled expressions: planned once, run for any values of their parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Parameter
from explorer.core.types.tensor_type import AnyType, Array
from explorer.plan.planner import Options, plan
from explorer.record.gc_pause import gc_paused
from explorer.run.execution.executors import EXECUTORS, RegisteredExecutor
from explorer.run.execution.program import Program

SIMPLE = EXECUTORS["simple"]


def parameter(type_: AnyType, title: str) -> Expr:
    """Record an operand that each run is given a value for."""
    return Parameter(type_, title)()


class Compiled:
    """Program of some expressions over parameters: called with arrays, it returns the values of its expressions.

    ``memory`` holds arrays of parameters that lie elsewhere, and of results that are to be written there; the other
    parameters are given in their order. Operands are at one address in every run, so that kernels find them there.
    """

    def __init__(
        self,
        roots: Sequence[Expr],
        parameters: Sequence[Expr],
        memory: Mapping[Expr, Array] | None = None,
        executor: RegisteredExecutor = SIMPLE,
        options: Options | None = None,
    ) -> None:
        self._executor = executor
        held = {} if memory is None else {**memory}
        self._places = [np.empty(node.shape, node.dtype) for node in parameters]
        with gc_paused():
            planned = plan(roots, options or Options(lanes=self._executor.lanes))
            self._program = Program(planned, held={**held, **dict(zip(parameters, self._places, strict=True))})
        self._copied = [(at, held[root]) for at, root in enumerate(roots) if root in held]
        """results that are copied to memory: what a rewrite made another node of"""

    def __call__(self, *arrays: Array) -> list[Any]:
        """Run the program; results outside the memory are read-only."""
        for place, array in zip(self._places, arrays, strict=True):
            np.copyto(place, array)
        self._executor.run(self._program, None)
        results = self._program.take()
        for at, memory in self._copied:
            if results[at] is not memory:
                np.copyto(memory, results[at])
        return results
