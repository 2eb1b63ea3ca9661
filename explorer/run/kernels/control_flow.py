"""Runners of calls that stay closed, and of control flow: they run planned bodies on the values of their operands.

Conditions, loops and scans are calls whose bodies are planned once, as programs of their own (`Program._closed_body`).
Here Python decides in each run which body runs, how often, and on which values: a value decides, so that no plan can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from explorer.core.ir.function import Call
from explorer.core.ir.mapped_call import MappedCall
from explorer.core.types.tensor_type import AnyType, TensorType, TupleType
from explorer.ops.control.cond import Cond
from explorer.ops.control.recurrence import Recurrence
from explorer.ops.control.scan import Scan
from explorer.ops.control.while_loop import WhileLoop
from explorer.run.kernels.recurrence_loop import recurrence_runner
from explorer.run.kernels.runners import Runner, Values
from explorer.run.runtime.marshalling import read_only
from explorer.run.runtime.memory import allocate

BodyRun: TypeAlias = Callable[[Sequence[Any]], list[Any]]
"""values of a body's parameters, then of its captured operands → those of its outputs"""


def call_runner(operation: Call, runs: Sequence[BodyRun], sources: list[int], type_: AnyType) -> Runner:
    """Make the runner of a call; ``runs`` run the bodies that are planned for it, in their order."""
    if isinstance(operation, Cond):
        compute = _choice(runs[0], runs[1])
    elif isinstance(operation, WhileLoop):
        compute = _loop(operation, runs[0])
    elif isinstance(operation, Recurrence) and all(part.dtype.char in "fd" for part in _parts(type_)):
        stacked = _parts(type_)[operation.states :]
        compute = recurrence_runner(operation, lambda: [allocate(part) for part in stacked])
    elif isinstance(operation, Scan):
        compute = _scan(operation, runs[0], type_)
    elif isinstance(operation, MappedCall):
        compute = _map(operation, runs[0], type_)
    else:
        compute = runs[0]
    several = isinstance(type_, TupleType)

    def run(values: Values) -> Any:
        results = compute([values[source] for source in sources])
        return tuple(results) if several else results[0]

    return run


def _parts(type_: AnyType) -> tuple[TensorType, ...]:
    return type_.parts if isinstance(type_, TupleType) else (type_,)


def _choice(then: BodyRun, otherwise: BodyRun) -> BodyRun:
    return lambda operands: (then if operands[0] else otherwise)(operands[1:])


def _loop(operation: WhileLoop, turn: BodyRun) -> BodyRun:
    end = 1 + operation.state_size

    def run(operands: Sequence[Any]) -> list[Any]:
        state, captured = [*operands[:end]], [*operands[end:]]
        if not state[0]:
            return _copies(state[1:])
        # The condition is the first value of the state: a turn computes the next state, and whether there is another
        # turn.
        while state[0]:
            state = turn([*state, *captured])
        return state[1:]

    return run


def _scan(operation: Scan, step: BodyRun, type_: AnyType) -> BodyRun:
    count = operation.states
    types = _parts(type_)
    order = range(operation.length)[:: -1 if operation.reverse else 1]

    def run(operands: Sequence[Any]) -> list[Any]:
        state, sequences, captured = operation.parts(operands)
        # the axis of the steps first, so that a step is one index, a view
        elements = [np.moveaxis(x, axis, 0) for x, axis in zip(sequences, operation.axes, strict=True)]
        stacks = [allocate(part) for part in types[count:]]
        places = [np.moveaxis(stack, axis, 0) for stack, axis in zip(stacks, operation.out_axes, strict=True)]
        for index in order:
            outputs = step([*state, *[element[index] for element in elements], *captured])
            state = outputs[:count]
            for place, output in zip(places, outputs[count:], strict=True):
                place[index] = output
        return [*(state if operation.length else _copies(state)), *stacks]

    return run


def _copies(state: Sequence[Any]) -> list[Any]:
    """Copy the state of a loop that made no turn: the memory of operands is planned, and other values follow there."""
    return [read_only(value, True) for value in state]


def _map(operation: MappedCall, call: BodyRun, type_: AnyType) -> BodyRun:
    types = _parts(type_)

    def run(operands: Sequence[Any]) -> list[Any]:
        stacks = [allocate(part) for part in types]
        for index in range(operation.size):
            # the index … keeps a member of a vector an array, as the body expects it
            members = [
                operand[index, ...] if is_batched else operand
                for operand, is_batched in zip(operands, operation.batched, strict=True)
            ]
            for stack, output in zip(stacks, call(members), strict=True):
                stack[index, ...] = output
        return stacks

    return run
