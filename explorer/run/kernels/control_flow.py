"""Runners of control flow, and of calls that were not inlined, which run planned bodies.

Conditions, loops and scans are calls with one or more bodies, each planned once as a separate `Program`. Which body
runs, how often, and on which values, is decided in each run, because it depends on values.
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
"""function from the values of a body's parameters, followed by its captured operands, to the values of its outputs"""


def call_runner(operation: Call, runs: Sequence[BodyFunction], sources: list[int], type_: AnyType) -> Runner:
    """Build the runner of a call; ``runs`` are functions that run its bodies, in order."""
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
    is_tuple = isinstance(type_, TupleType)

    def run(values: Values) -> Any:
        results = compute([values[source] for source in sources])
        return tuple(results) if is_tuple else results[0]

    return run


def _parts(type_: AnyType) -> tuple[TensorType, ...]:
    return type_.parts if isinstance(type_, TupleType) else (type_,)


def _choice(then: BodyFunction, otherwise: BodyFunction) -> BodyFunction:
    return lambda operands: (then if operands[0] else otherwise)(operands[1:])


def _loop(operation: WhileLoop, iterate: BodyFunction) -> BodyFunction:
    end = 1 + operation.state_size

    def run(operands: Sequence[Any]) -> list[Any]:
        state, captured = [*operands[:end]], [*operands[end:]]
        if not state[0]:
            return _copies(state[1:])
        # The first value of the state is the condition for another iteration.
        while state[0]:
            state = iterate([*state, *captured])
        return state[1:]

    return run


def _scan(operation: Scan, step: BodyFunction, type_: AnyType) -> BodyFunction:
    count = operation.states
    types = _parts(type_)
    order = range(operation.length)[:: -1 if operation.reverse else 1]

    def run(operands: Sequence[Any]) -> list[Any]:
        state, sequences, captured = operation.parts(operands)
        # With the step axis first, one index selects a step as a view.
        elements = [np.moveaxis(x, axis, 0) for x, axis in zip(sequences, operation.axes, strict=True)]
        stacks = [allocate(part) for part in types[count:]]
        targets = [np.moveaxis(stack, axis, 0) for stack, axis in zip(stacks, operation.out_axes, strict=True)]
        for index in order:
            outputs = step([*state, *[element[index] for element in elements], *captured])
            state = outputs[:count]
            for target, output in zip(targets, outputs[count:], strict=True):
                target[index] = output
        return [*(state if operation.length else _copies(state)), *stacks]

    return run


def _copies(state: Sequence[Any]) -> list[Any]:
    """Copy the state of a loop without iterations, because later values overwrite the operands' memory."""
    return [read_only(value, True) for value in state]


def _map(operation: MappedCall, call: BodyFunction, type_: AnyType) -> BodyFunction:
    types = _parts(type_)

    def run(operands: Sequence[Any]) -> list[Any]:
        stacks = [allocate(part) for part in types]
        for index in range(operation.size):
            # the index … gives an array even for an element of a vector
            members = [
                operand[index, ...] if is_batched else operand
                for operand, is_batched in zip(operands, operation.batched, strict=True)
            ]
            for stack, output in zip(stacks, call(members), strict=True):
                stack[index, ...] = output
        return stacks

    return run


Steps: TypeAlias = Callable[[Array, Array, Array | None, list[Array], Array, range], list[Array]]
"""function with arguments: inputs (steps, N, gates · H), weights (H, gates · H), bias, initial state (each N, H), the
sequence to be filled, and the order of steps; it returns the last state
"""


def recurrence_runner(operation: Recurrence, allocate_parts: Callable[[], Sequence[Array]]) -> Callable[..., list[Any]]:
    """Return the function that maps the operands of a recurrence to its last states and its sequence."""
    steps, axis = KERNELS[operation.cell], operation.axes[0]
    order = range(operation.length)[:: -1 if operation.reverse else 1]

    def run(operands: Sequence[Array]) -> list[Any]:
        state, (x, *_), (weights, *bias) = operation.parts(operands)
        lengths = bias.pop() if operation.has_lengths else None
        (sequence,) = allocate_parts()
        inputs, filled, offset = np.moveaxis(x, axis, 0), np.moveaxis(sequence, axis, 0), bias[0] if bias else None
        if lengths is None:
            return [*steps(inputs, weights, offset, state, filled, order), sequence]
        last = [part.copy() for part in state]
        # sequences of equal length are computed together as a separate batch
        for length in np.unique(np.clip(lengths, 0, operation.length)).tolist():
            members = np.flatnonzero(np.clip(lengths, 0, operation.length) == length)
            part_sequence = np.zeros_like(sequence, shape=(operation.length, len(members), sequence.shape[-1]))
            part_order = range(length)[:: -1 if operation.reverse else 1]
            part_states = steps(
                inputs[:length, members],
                weights,
                offset,
                [s[members] for s in state],
                part_sequence[:length],
                part_order,
            )
            filled[:, members] = part_sequence
            for part, values in zip(last, part_states, strict=True):
                part[members] = values
        return [*last, sequence]

    return run


def _empty(like: Array, shape: tuple[int, ...]) -> Array:
    """Return an uninitialised array with the given shape, and with the dtype and device of ``like``."""
    return np.empty_like(like, shape=shape, order="C")


def _half(x: Array) -> Any:
    """Return ½ as an array, since NumPy would convert a scalar in every call; on other devices, as a number."""
    half = np.array(0.5, x.dtype)
    return half if isinstance(x, np.ndarray) else half[()]


def _features_first(x: Array, bias: Array | None, order: Sequence[int], halved: int, hidden: int) -> Array:
    """Return inputs as (steps, gates · H, N), with reordered gates, the first ``halved`` multiplied by ½."""
    length, members, _ = x.shape
    features, half = _empty(x, (length, len(order) * hidden, members)), _half(x)
    for position, gate in enumerate(order):
        target = features[:, position * hidden : (position + 1) * hidden]
        source = x[..., gate * hidden : (gate + 1) * hidden].transpose(0, 2, 1)
        if bias is not None:
            source = np.add(source, bias[gate * hidden : (gate + 1) * hidden, None], out=target)
        if position < halved:
            np.multiply(source, half, out=target)
        elif source is not target:
            target[...] = source
    return features


def _rows(weights: Array, order: Sequence[int], halved: int, hidden: int) -> Array:
    """Return weights as (gates · H, H), with reordered gates, the first ``halved`` multiplied by ½."""
    # Copied in each run, because training changes weights; the copy takes far less time than the loop.
    rows = np.concatenate([weights[:, gate * hidden : (gate + 1) * hidden].T for gate in order])
    rows[: halved * hidden] *= rows.dtype.type(0.5)
    return rows


def _states_of(sequence: Array, length: int, hidden: int, members: int) -> Array:
    """Return memory for the states (steps, H, N): the sequence's own memory, if its strides allow this."""
    if members == 1 and sequence.flags.c_contiguous:
        # If N = 1, (H, 1) and (1, H) are the same memory, so states are written in place.
        return sequence.reshape(length, hidden, 1)
    return _empty(sequence, (length, hidden, members))


def _finish(sequence: Array, states: Array) -> None:
    if not np.may_share_memory(sequence, states):
        sequence[...] = states.transpose(0, 2, 1)


def _lstm(x: Array, weights: Array, bias: Array | None, state: list[Array], out: Array, order: range) -> list[Array]:
    hidden = weights.shape[0]
    gates = 0, 1, 3, 2  # input, forget and output gates, which are halved, then the candidate
    inputs, rows = _features_first(x, bias, gates, 3, hidden), _rows(weights, gates, 3, hidden)
    members, half = x.shape[1], _half(x)
    states = _states_of(out, len(x), hidden, members)
    # input, forget, output, candidate, memory: a single call multiplies input and forget by candidate and memory
    buffer = _empty(x, (5 * hidden, members))
    products, memory_tanh = _empty(x, (2 * hidden, members)), _empty(x, (hidden, members))
    all_gates, sigmoids, output_gate = buffer[: 4 * hidden], buffer[: 3 * hidden], buffer[2 * hidden : 3 * hidden]
    factors, multiplicands, memory = buffer[: 2 * hidden], buffer[3 * hidden :], buffer[4 * hidden :]
    first, second = products[:hidden], products[hidden:]
    memory[...] = state[1].T
    h = state[0].T.copy()
    # Local variables, since nine attribute look-ups matter in a step of a few µs.
    dot, add, multiply, tanh = np.dot, np.add, np.multiply, np.tanh
    for index in order:
        dot(rows, h, all_gates)
        add(all_gates, inputs[index], all_gates)
        tanh(all_gates, all_gates)
        multiply(sigmoids, half, sigmoids)
        add(sigmoids, half, sigmoids)
        multiply(factors, multiplicands, products)
        add(first, second, memory)
        tanh(memory, memory_tanh)
        h = multiply(output_gate, memory_tanh, states[index])
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
    candidate_bias = None
    if bias is not None and not early:  # the reset gate multiplies this bias too
        candidate_bias = np.repeat(bias[2 * hidden :, None], members, axis=1)
        bias = np.concatenate([bias[: 2 * hidden], np.zeros_like(bias[:hidden])])
    gates = 0, 1, 2
    inputs, rows = _features_first(x, bias, gates, 2, hidden), _rows(weights, gates, 2, hidden)
    states = _states_of(out, len(x), hidden, members)
    gates_buffer, scratch = _empty(x, (3 * hidden, members)), _empty(x, (hidden, members))
    sigmoid_gates, reset, update_gate = (
        gates_buffer[: 2 * hidden],
        gates_buffer[:hidden],
        gates_buffer[hidden : 2 * hidden],
    )
    candidate, product = gates_buffer[2 * hidden :], (rows[: 2 * hidden] if early else rows)
    target, last_rows = (sigmoid_gates, rows[2 * hidden :]) if early else (gates_buffer, rows)
    h = state[0].T.copy()
    dot, add, multiply, subtract, tanh = np.dot, np.add, np.multiply, np.subtract, np.tanh
    of_gates, of_candidate = inputs[:, : 2 * hidden], inputs[:, 2 * hidden :]
    for index in order:
        dot(product, h, target)
        add(sigmoid_gates, of_gates[index], sigmoid_gates)
        tanh(sigmoid_gates, sigmoid_gates)
        multiply(sigmoid_gates, half, sigmoid_gates)
        add(sigmoid_gates, half, sigmoid_gates)
        if early:
            multiply(reset, h, scratch)
            dot(last_rows, scratch, candidate)
        else:
            if candidate_bias is not None:
                add(candidate, candidate_bias, candidate)
            multiply(candidate, reset, candidate)
        add(candidate, of_candidate[index], candidate)
        tanh(candidate, candidate)
        subtract(h, candidate, scratch)
        multiply(scratch, update_gate, scratch)
        h = add(candidate, scratch, states[index])
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
            next_state = states[index]
            np.dot(rows, h, next_state)
            np.add(next_state, inputs[index], next_state)
            h = activation(next_state, next_state)
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
