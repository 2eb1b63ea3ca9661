"""Runners of calls that were not inlined, and of control flow; they run planned bodies on operand values.

Conditions, loops and scans are calls whose bodies are each planned once, as separate programs (`Program`). In each run
Python decides here which body runs, how often, and on which values, since these depend on values that no plan knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from explorer.core.ir.function import Call
from explorer.core.ir.mapped_call import MappedCall
from explorer.core.types.tensor_type import AnyType, Array, TensorType, TupleType
from explorer.ops.control.cond import Cond
from explorer.ops.control.recurrence import Recurrence
from explorer.ops.control.scan import Scan
from explorer.ops.control.while_loop import WhileLoop
from explorer.run.kernels.runners import Runner, Values
from explorer.run.runtime.marshalling import read_only
from explorer.run.runtime.memory import allocate

BodyFunction: TypeAlias = Callable[[Sequence[Any]], list[Any]]
"""values of a body's parameters, then of its captured operands → values of its outputs"""


def call_runner(operation: Call, runs: Sequence[BodyFunction], sources: list[int], type_: AnyType) -> Runner:
    """Build the runner of a call; ``runs`` run the bodies planned for it, in order."""
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


def _choice(then: BodyFunction, otherwise: BodyFunction) -> BodyFunction:
    return lambda operands: (then if operands[0] else otherwise)(operands[1:])


def _loop(operation: WhileLoop, turn: BodyFunction) -> BodyFunction:
    end = 1 + operation.state_size

    def run(operands: Sequence[Any]) -> list[Any]:
        state, captured = [*operands[:end]], [*operands[end:]]
        if not state[0]:
            return _copies(state[1:])
        # The condition is the first value of the state: an iteration computes the next state and whether another
        # iteration follows.
        while state[0]:
            state = turn([*state, *captured])
        return state[1:]

    return run


def _scan(operation: Scan, step: BodyFunction, type_: AnyType) -> BodyFunction:
    count = operation.states
    types = _parts(type_)
    order = range(operation.length)[:: -1 if operation.reverse else 1]

    def run(operands: Sequence[Any]) -> list[Any]:
        state, sequences, captured = operation.parts(operands)
        # the step axis first, so that a step is one index, and therefore a view
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
    """Copy the state of a loop without iterations: operands are in planned memory, which later values overwrite."""
    return [read_only(value, True) for value in state]


def _map(operation: MappedCall, call: BodyFunction, type_: AnyType) -> BodyFunction:
    types = _parts(type_)

    def run(operands: Sequence[Any]) -> list[Any]:
        stacks = [allocate(part) for part in types]
        for index in range(operation.size):
            # the index … keeps an element of a vector an array, as the body expects
            members = [
                operand[index, ...] if is_batched else operand
                for operand, is_batched in zip(operands, operation.batched, strict=True)
            ]
            for stack, output in zip(stacks, call(members), strict=True):
                stack[index, ...] = output
        return stacks

    return run


Steps: TypeAlias = Callable[[Array, Array, Array | None, list[Array], Array, range], list[Array]]
"""inputs (steps, N, gates · H), weights (H, gates · H), bias, initial state (each N, H), the sequence to fill, step
order → last state"""


def recurrence_runner(operation: Recurrence, allocate_parts: Callable[[], Sequence[Array]]) -> Callable[..., list[Any]]:
    """Build the function from a recurrence's operands to its last states and its sequence."""
    steps, axis = KERNELS[operation.cell], operation.axes[0]
    order = range(operation.length)[:: -1 if operation.reverse else 1]

    def run(operands: Sequence[Array]) -> list[Any]:
        state, (x, *_), (weights, *bias) = operation.parts(operands)
        ends = bias.pop() if operation.has_lengths else None
        (sequence,) = allocate_parts()
        inputs, filled, offset = np.moveaxis(x, axis, 0), np.moveaxis(sequence, axis, 0), bias[0] if bias else None
        if ends is None:
            return [*steps(inputs, weights, offset, state, filled, order), sequence]
        last = [part.copy() for part in state]
        # sequences of equal length are computed together, as a separate batch
        for length in np.unique(np.clip(ends, 0, operation.length)).tolist():
            chosen = np.flatnonzero(np.clip(ends, 0, operation.length) == length)
            own = np.zeros_like(sequence, shape=(operation.length, len(chosen), sequence.shape[-1]))
            within = range(length)[:: -1 if operation.reverse else 1]
            after = steps(inputs[:length, chosen], weights, offset, [s[chosen] for s in state], own[:length], within)
            filled[:, chosen] = own
            for part, values in zip(last, after, strict=True):
                part[chosen] = values
        return [*last, sequence]

    return run


def _empty(like: Array, shape: tuple[int, ...]) -> Array:
    """Return uninitialized memory on an array's device."""
    return np.empty_like(like, shape=shape, order="C")


def _half(x: Array) -> Any:
    """Return ½ in NumPy's fastest form, an array, since scalars are converted in every call; on other devices a
    number."""
    half = np.array(0.5, x.dtype)
    return half if isinstance(x, np.ndarray) else half[()]


def _features_first(x: Array, bias: Array | None, order: Sequence[int], halved: int, hidden: int) -> Array:
    """Return inputs as (steps, gates · H, N) with reordered gates, the first ``halved`` of them halved."""
    length, members, _ = x.shape
    laid, half = _empty(x, (length, len(order) * hidden, members)), _half(x)
    for place, gate in enumerate(order):
        target = laid[:, place * hidden : (place + 1) * hidden]
        source = x[..., gate * hidden : (gate + 1) * hidden].transpose(0, 2, 1)
        if bias is not None:
            source = np.add(source, bias[gate * hidden : (gate + 1) * hidden, None], out=target)
        if place < halved:
            np.multiply(source, half, out=target)
        elif source is not target:
            target[...] = source
    return laid


def _rows(weights: Array, order: Sequence[int], halved: int, hidden: int) -> Array:
    """Return weights as (gates · H, H) with reordered gates, the first ``halved`` of them halved."""
    # Copied in each run, which takes far less time than the loop, since weights change in a training step.
    rows = np.concatenate([weights[:, gate * hidden : (gate + 1) * hidden].T for gate in order])
    rows[: halved * hidden] *= rows.dtype.type(0.5)
    return rows


def _states_of(sequence: Array, length: int, hidden: int, members: int) -> Array:
    """Return memory for the states (steps, H, N), in the sequence's memory if its strides allow."""
    if members == 1 and sequence.flags.c_contiguous:
        # With N = 1, (H, 1) and (1, H) are the same memory, so states are written directly to their destination.
        return sequence.reshape(length, hidden, 1)
    return _empty(sequence, (length, hidden, members))


def _finish(sequence: Array, states: Array) -> None:
    if not np.may_share_memory(sequence, states):
        sequence[...] = states.transpose(0, 2, 1)


def _lstm(x: Array, weights: Array, bias: Array | None, state: list[Array], out: Array, order: range) -> list[Array]:
    hidden = weights.shape[0]
    gates = 0, 1, 3, 2  # input, forget and output gates, which are halved; then the candidate, next to the memory
    inputs, rows = _features_first(x, bias, gates, 3, hidden), _rows(weights, gates, 3, hidden)
    members, half = x.shape[1], _half(x)
    states = _states_of(out, len(x), hidden, members)
    # input, forget, output, candidate, memory: input and forget are multiplied by candidate and memory in one call
    place = _empty(x, (5 * hidden, members))
    products, squashed = _empty(x, (2 * hidden, members)), _empty(x, (hidden, members))
    all_gates, sigmoids, leave = place[: 4 * hidden], place[: 3 * hidden], place[2 * hidden : 3 * hidden]
    factors, others, memory = place[: 2 * hidden], place[3 * hidden :], place[4 * hidden :]
    first, second = products[:hidden], products[hidden:]
    memory[...] = state[1].T
    h = state[0].T.copy()
    # Locals, since nine attribute look-ups matter in a step of a few µs.
    dot, add, multiply, tanh = np.dot, np.add, np.multiply, np.tanh
    for index in order:
        dot(rows, h, all_gates)
        add(all_gates, inputs[index], all_gates)
        tanh(all_gates, all_gates)
        multiply(sigmoids, half, sigmoids)
        add(sigmoids, half, sigmoids)
        multiply(factors, others, products)
        add(first, second, memory)
        tanh(memory, squashed)
        h = multiply(leave, squashed, states[index])
    last = [h.T.copy(), memory.T.copy()]
    _finish(out, states)
    return last


def _gru(x: Array, weights: Array, bias: Array | None, state: list[Array], out: Array, order: range) -> list[Array]:
    return _gated(x, weights, bias, state, out, order, early=False)


def _early_gru(
    x: Array, weights: Array, bias: Array | None, state: list[Array], out: Array, order: range
) -> list[Array]:
    return _gated(x, weights, bias, state, out, order, early=True)


def _gated(
    x: Array, weights: Array, bias: Array | None, state: list[Array], out: Array, order: range, *, early: bool
) -> list[Array]:
    hidden, members, half = weights.shape[0], x.shape[1], _half(x)
    inner = None
    if bias is not None and not early:  # the candidate's bias is multiplied by the reset gate, with its product
        inner = np.repeat(bias[2 * hidden :, None], members, axis=1)
        bias = np.concatenate([bias[: 2 * hidden], np.zeros_like(bias[:hidden])])
    gates = 0, 1, 2
    inputs, rows = _features_first(x, bias, gates, 2, hidden), _rows(weights, gates, 2, hidden)
    states = _states_of(out, len(x), hidden, members)
    place, rest = _empty(x, (3 * hidden, members)), _empty(x, (hidden, members))
    both, reset, kept = place[: 2 * hidden], place[:hidden], place[hidden : 2 * hidden]
    fresh, product = place[2 * hidden :], (rows[: 2 * hidden] if early else rows)
    target, last_rows = (both, rows[2 * hidden :]) if early else (place, rows)
    h = state[0].T.copy()
    dot, add, multiply, subtract, tanh = np.dot, np.add, np.multiply, np.subtract, np.tanh
    of_gates, of_candidate = inputs[:, : 2 * hidden], inputs[:, 2 * hidden :]
    for index in order:
        dot(product, h, target)
        add(both, of_gates[index], both)
        tanh(both, both)
        multiply(both, half, both)
        add(both, half, both)
        if early:
            multiply(reset, h, rest)
            dot(last_rows, rest, fresh)
        else:
            if inner is not None:
                add(fresh, inner, fresh)
            multiply(fresh, reset, fresh)
        add(fresh, of_candidate[index], fresh)
        tanh(fresh, fresh)
        subtract(h, fresh, rest)
        multiply(rest, kept, rest)
        h = add(fresh, rest, states[index])
    last = [h.T.copy()]
    _finish(out, states)
    return last


def _plain(activation: Callable[[Array, Array], Array]) -> Steps:
    def steps(
        x: Array, weights: Array, bias: Array | None, state: list[Array], out: Array, order: range
    ) -> list[Array]:
        hidden, members = weights.shape[0], x.shape[1]
        inputs, rows = _features_first(x, bias, (0,), 0, hidden), _rows(weights, (0,), 0, hidden)
        states = _states_of(out, len(x), hidden, members)
        h = state[0].T.copy()
        for index in order:
            after = states[index]
            np.dot(rows, h, after)
            np.add(after, inputs[index], after)
            h = activation(after, after)
        last = [h.T.copy()]
        _finish(out, states)
        return last

    return steps


def _relu(x: Array, out: Array) -> Array:
    result: Array = np.maximum(x, 0, out=out)
    return result


KERNELS: dict[str, Steps] = {
    "lstm": _lstm,
    "gru": _gru,
    "early gru": _early_gru,
    "rnn": _plain(np.tanh),
    "relu rnn": _plain(_relu),
}
