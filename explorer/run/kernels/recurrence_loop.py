"""Kernels of recurrences: all steps of a cell in one loop of NumPy calls on memory that is allocated once.

The loop is bound by Python's calls, not by arithmetic, so that each step has as few of them as possible. Values are
laid features first, (H, N): gates of one kind are then adjacent rows, whatever N is, and one call takes several gates.
σ(x) = ½ + ½ tanh(x / 2) makes one tanh of all gates; the inner ½ is multiplied into weights and inputs in front of the
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from explorer.core.types.tensor_type import Array
from explorer.ops.control.recurrence import Recurrence

Steps: TypeAlias = Callable[[Array, Array, Array | None, list[Array], Array, range], list[Array]]
"""inputs (steps, N, gates · H), weights (H, gates · H), bias, first state (each N, H), the sequence to fill, order of
steps → last state"""


def recurrence_runner(operation: Recurrence, allocate_parts: Callable[[], Sequence[Array]]) -> Callable[..., list[Any]]:
    """Make the function of a recurrence's operands that returns its last states and its sequence."""
    steps, axis = KERNELS[operation.cell], operation.axes[0]
    order = range(operation.length)[:: -1 if operation.reverse else 1]

    def run(operands: Sequence[Array]) -> list[Any]:
        state, (x, *_), (weights, *bias) = operation.parts(operands)
        ends = bias.pop() if operation.has_lengths else None
        (sequence,) = allocate_parts()
        inputs, filled, offset = np.moveaxis(x, axis, 0), np.moveaxis(sequence, axis, 0), bias[0] if bias else None
        if ends is None:
            return [*steps(inputs, weights, offset, state, filled, order), sequence]
        last = [np.array(part) for part in state]
        # sequences of one length are computed together, as if there were no others
        for length in np.unique(np.clip(ends, 0, operation.length)).tolist():
            chosen = np.flatnonzero(np.clip(ends, 0, operation.length) == length)
            own = np.zeros((operation.length, len(chosen), sequence.shape[-1]), sequence.dtype)
            within = range(length)[:: -1 if operation.reverse else 1]
            after = steps(inputs[:length, chosen], weights, offset, [s[chosen] for s in state], own[:length], within)
            filled[:, chosen] = own
            for part, values in zip(last, after, strict=True):
                part[chosen] = values
        return [*last, sequence]

    return run


def _features_first(x: Array, bias: Array | None, order: Sequence[int], halved: int, hidden: int) -> Array:
    """Return inputs as (steps, gates · H, N), gates in another order, the first ``halved`` of them halved."""
    length, members, _ = x.shape
    laid = np.empty((length, len(order) * hidden, members), x.dtype)
    half = np.array(0.5, x.dtype)
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
    """Return weights as (gates · H, H), gates in another order, the first ``halved`` of them halved."""
    rows = np.concatenate([weights[:, gate * hidden : (gate + 1) * hidden].T for gate in order])
    rows[: halved * hidden] *= rows.dtype.type(0.5)
    return rows


def _states_of(sequence: Array, length: int, hidden: int, members: int) -> Array:
    """Return memory for the states (steps, H, N): the sequence's own where it can be seen so."""
    if members == 1 and sequence.flags.c_contiguous:
        return sequence.reshape(length, hidden, 1)
    return np.empty((length, hidden, members), sequence.dtype)


def _finish(sequence: Array, states: Array) -> None:
    if not np.may_share_memory(sequence, states):
        sequence[...] = states.transpose(0, 2, 1)


def _lstm(x: Array, weights: Array, bias: Array | None, state: list[Array], out: Array, order: range) -> list[Array]:
    hidden = weights.shape[0]
    gates = 0, 1, 3, 2  # entry, forget, exit: the halved ones; then the candidate, beside the memory
    inputs, rows = _features_first(x, bias, gates, 3, hidden), _rows(weights, gates, 3, hidden)
    members, half = x.shape[1], np.array(0.5, x.dtype)  # an array: NumPy converts scalars in every call
    states = _states_of(out, len(x), hidden, members)
    # entry, forget, exit, candidate, memory: entry and forget are multiplied with candidate and memory in one call
    place = np.empty((5 * hidden, members), x.dtype)
    products, squashed = np.empty((2 * hidden, members), x.dtype), np.empty((hidden, members), x.dtype)
    all_gates, sigmoids, leave = place[: 4 * hidden], place[: 3 * hidden], place[2 * hidden : 3 * hidden]
    factors, others, memory = place[: 2 * hidden], place[3 * hidden :], place[4 * hidden :]
    first, second = products[:hidden], products[hidden:]
    memory[...] = state[1].T
    h = np.ascontiguousarray(state[0].T)
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
    hidden, members, half = weights.shape[0], x.shape[1], np.array(0.5, x.dtype)
    inner = None
    if bias is not None and not early:  # the candidate's bias is multiplied by the reset gate, with its product
        inner = np.repeat(bias[2 * hidden :, None], members, axis=1)
        bias = np.concatenate([bias[: 2 * hidden], np.zeros(hidden, bias.dtype)])
    gates = 0, 1, 2
    inputs, rows = _features_first(x, bias, gates, 2, hidden), _rows(weights, gates, 2, hidden)
    states = _states_of(out, len(x), hidden, members)
    place, rest = np.empty((3 * hidden, members), x.dtype), np.empty((hidden, members), x.dtype)
    both, reset, kept = place[: 2 * hidden], place[:hidden], place[hidden : 2 * hidden]
    fresh, product = place[2 * hidden :], (rows[: 2 * hidden] if early else rows)
    target, last_rows = (both, rows[2 * hidden :]) if early else (place, rows)
    h = np.ascontiguousarray(state[0].T)
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
        h = np.ascontiguousarray(state[0].T)
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
