"""Programs that copy small inputs and results at their border, so that their kernels find them where they were.

A kernel whose operands or result lie elsewhere in each run decides anew how it is cut, which takes several times as
long as a small kernel itself. Copying some KB takes less than a microsecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call, Item, Parameter
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array, TensorType
from explorer.plan.planner import Plan
from explorer.plan.schedule.schedule import Kernel
from explorer.run.execution.program import Program
from explorer.run.runtime.marshalling import read_only

_SMALL = 1 << 14
"""bytes up to which a value is copied"""


class CopyingProgram(Program):
    """Program whose parameters and results lie at one address in every run where they are small."""

    def __init__(self, planned: Plan) -> None:
        schedule = planned.schedule
        roots = {root.uid for root in schedule.roots}
        self._inputs = {
            leaf.uid: _memory(leaf)
            for leaf in schedule.leaves
            if isinstance(leaf.operation, Parameter) and _is_small(leaf)
        }
        own = [kernel.result for kernel in schedule.kernels if kernel.result.uid in roots and _is_written(kernel)]
        inputs = {leaf: self._inputs[leaf.uid] for leaf in schedule.leaves if leaf.uid in self._inputs}
        super().__init__(planned, held={**inputs, **{node: _memory(node) for node in own}})

    def bind(self, inputs: Mapping[Expr, Any]) -> None:
        """Set the values of parameters; raises StateError for a missing one, OperandError for one that does not fit."""
        super().bind(inputs)
        values = {node.uid: value for node, value in inputs.items()}
        for parameter in self.parameters:
            if parameter.uid in self._inputs:
                np.copyto(self._inputs[parameter.uid], self._value_of(parameter, values))

    def read(self) -> list[Any]:
        """Return the results of the run, read-only; copies of those in memory of the program."""
        results = super().read()
        return [
            read_only(value, True) if slot in self._written else value
            for slot, value in zip(self.results, results, strict=True)
        ]


def _is_small(node: Expr) -> bool:
    type_ = node.type
    return isinstance(type_, TensorType) and type_.plain and type_.device is cpu and type_.nbytes <= _SMALL


def _is_written(kernel: Kernel) -> bool:
    """Whether the kernel of a result writes it into memory that it is given, in every run."""
    passes_on = kernel.is_view or isinstance(kernel.result.operation, (Call, Item))
    return _is_small(kernel.result) and not passes_on and not kernel.constant


def _memory(node: Expr) -> Array:
    return np.empty(node.tensor_type.shape, node.tensor_type.dtype)
