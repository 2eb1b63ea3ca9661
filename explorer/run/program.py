"""A program: a schedule made ready to run, with its memory. Running it again allocates no intermediate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.core.errors import StateError
from explorer.core.expr import Expr
from explorer.core.function import Body, Call, Parameter
from explorer.core.tensor import Tensor
from explorer.core.types import Array, TensorType, TupleType
from explorer.plan.planner import Options, Planned, plan
from explorer.plan.schedule import Kernel
from explorer.run.kernels import Fused, Runner, Values, single


class Program:
    """Runners in scheduled order over a table of values."""

    def __init__(self, planned: Planned) -> None:
        self.planned = planned
        schedule = planned.schedule
        self.slots: dict[int, int] = {}
        self.values: Values = []
        self.parameters: list[Expr] = []
        for leaf in schedule.leaves:
            self._add(leaf, self._leaf(leaf))
        for kernel in schedule.kernels:
            self._add(kernel.result, None)
        blocks = [np.empty(0, np.uint8) if not size else _device(schedule.kernels).new(size) for size in schedule.buffers]
        self.runners: list[tuple[Runner, int]] = [
            (self._runner(kernel, blocks), self.slots[kernel.result.uid]) for kernel in schedule.kernels
        ]
        self.results = [self.slots[root.uid] for root in schedule.roots]
        self.temporary = [slot for (_, slot), kernel in zip(self.runners, schedule.kernels, strict=True) if kernel.buffer < 0]

    def _add(self, node: Expr, value: Any) -> None:
        self.slots[node.uid] = len(self.values)
        self.values.append(value)

    def _leaf(self, leaf: Expr) -> Array | None:
        if isinstance(leaf, Tensor):
            return leaf.array
        if isinstance(leaf.operation, Parameter):
            self.parameters.append(leaf)
            return None
        value: Array = leaf.operation.kernel(None)
        return value

    def _runner(self, kernel: Kernel, blocks: list[Array]) -> Runner:
        result = kernel.result
        kind = result.type
        out: Any = None
        if kernel.buffer >= 0 and isinstance(kind, TensorType):
            out = np.ndarray(kind.shape, kind.dtype, buffer=blocks[kernel.buffer])
        operands = self.planned.graph.inputs
        if len(kernel.nodes) > 1:
            return Fused(kernel, lambda node: operands[node.uid], self.slots, out)
        sources = [self.slots[operand.uid] for operand in operands[result.uid]]
        if isinstance(result.operation, Call):
            return _call(result.operation.body, sources, self.planned.options)
        return single(result.operation, sources, kind, out)

    def bind(self, inputs: Mapping[int, Array]) -> None:
        """Give the parameters their values, by uid; raises StateError for one that has none."""
        for parameter in self.parameters:
            if parameter.uid not in inputs:
                raise StateError(
                    f"the parameter {parameter.operation.label!r} ({parameter.type}) has no value",
                    rule="every parameter that a result needs is given a value",
                    fix="evaluate a call of the function, or give the net all its inputs",
                )
            self.values[self.slots[parameter.uid]] = inputs[parameter.uid]

    def take(self) -> list[Any]:
        """The results of the run, read-only; the table forgets all that is not in planned memory."""
        found = [self.values[slot] for slot in self.results]
        for value in found:
            for array in value if isinstance(value, tuple) else (value,):
                array.flags.writeable = False
        self.forget()
        return found

    def forget(self) -> None:
        """Drop the values of a run that are not in planned memory."""
        for slot in self.temporary:
            self.values[slot] = None


def _device(kernels: tuple[Kernel, ...]) -> Any:
    kind = kernels[0].result.type
    return kind.parts[0].device if isinstance(kind, TupleType) else kind.device


def _call(body: Body, sources: list[int], options: Options) -> Runner:
    """A call that stayed closed: its body is planned once and run with the operands' values."""
    key = ("program", options)
    program: Program | None = body.derived.get(key)
    if program is None:
        program = body.derived[key] = Program(plan(body.outputs, options))
    inner = program
    inputs = (*body.parameters, *body.captured)
    several = len(body.outputs) > 1

    def run(values: Values) -> Any:
        given = {node.uid: values[source] for node, source in zip(inputs, sources, strict=True)}
        table = inner.values
        for node in inputs:
            slot = inner.slots.get(node.uid)
            if slot is not None:
                table[slot] = given[node.uid]
        for runner, slot in inner.runners:
            table[slot] = runner(table)
        found = [np.array(value) if value.base is not None else value for value in inner.take()]
        return tuple(found) if several else found[0]

    return run
