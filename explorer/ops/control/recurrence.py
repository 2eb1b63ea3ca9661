"""Recurrence: a scan whose step is a named cell, computed by one kernel.

The body contains the cell as expressions, so graphs show it, and the scan's gradient and batching rule apply. Gates,
states and their order are as in PyTorch. The product of inputs and weights does not depend on the state, so the caller
computes it once for all steps, and each step computes only h · W.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from explorer.core.ir.expr import Expr, record
from explorer.core.ir.function import Parameter
from explorer.core.ir.tensor import tensor
from explorer.core.tracing.trace import outputs_of
from explorer.ops.control.bodies import check_same_types, recorded_body
from explorer.ops.control.scan import Scan, element_type
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import relu, sigmoid, tanh
from explorer.ops.manipulation.reshape import reshape

Cell: TypeAlias = Callable[..., tuple[Expr, ...]]
"""(inputs times weights (N, gates · H), weights of the state (H, gates · H), their bias, state…) → new state"""


def lstm_cell(x: Expr, weights: Expr, bias: Expr | None, h: Expr, c: Expr) -> tuple[Expr, ...]:
    """Compute the next state (h, c) of an LSTM, whose gates are ordered input, forget, candidate, output.

    c′ = σ(forget) · c + σ(input) · tanh(candidate), and h′ = σ(output) · tanh(c′).
    """
    entry, forget, candidate, exit = gates(affine(h, weights, bias) + x, 4)
    memory = sigmoid(forget) * c + sigmoid(entry) * tanh(candidate)
    return sigmoid(exit) * tanh(memory), memory


def gru_cell(x: Expr, weights: Expr, bias: Expr | None, h: Expr) -> tuple[Expr, ...]:
    """Compute the next state of a GRU, whose gates are ordered reset, update, candidate.

    h′ = (1 − z) · n + z · h, where z = σ(update) and n = tanh(candidate + σ(reset) · (h · W)).
    """
    reset, update, candidate = gates(x, 3)
    reset_h, update_h, candidate_h = gates(affine(h, weights, bias), 3)
    kept = sigmoid(update + update_h)
    new_h = tanh(candidate + sigmoid(reset + reset_h) * candidate_h)
    # equals kept · h + (1 − kept) · new_h, with one multiplication fewer
    return (new_h + kept * (h - new_h),)


def early_gru_cell(x: Expr, weights: Expr, bias: Expr | None, h: Expr) -> tuple[Expr, ...]:
    """Compute the next state of a GRU whose reset gate is applied to h before the product."""
    size = h.shape[-1]
    reset, update, candidate = gates(x, 3)
    both_gates = affine(h, weights[:, : 2 * size], None if bias is None else bias[: 2 * size])
    reset_h, update_h = gates(both_gates, 2)
    kept = sigmoid(update + update_h)
    inner = affine(sigmoid(reset + reset_h) * h, weights[:, 2 * size :], None if bias is None else bias[2 * size :])
    new_h = tanh(candidate + inner)
    return (new_h + kept * (h - new_h),)


def rnn_cell(x: Expr, weights: Expr, bias: Expr | None, h: Expr) -> tuple[Expr, ...]:
    """Compute tanh(h · W + b + x), the next state of a plain cell."""
    return (tanh(affine(h, weights, bias) + x),)


def relu_cell(x: Expr, weights: Expr, bias: Expr | None, h: Expr) -> tuple[Expr, ...]:
    """Compute relu(h · W + b + x), the next state of a plain cell."""
    return (relu(affine(h, weights, bias) + x),)


CELLS: dict[str, Cell] = {
    "lstm": lstm_cell,
    "gru": gru_cell,
    "early gru": early_gru_cell,
    "rnn": rnn_cell,
    "relu rnn": relu_cell,
}
"""name → cell"""


class Recurrence(Scan):
    """Scan of a cell in ``CELLS``.

    The operands are the initial states, inputs times weights, state weights and bias; the results are the last states
    and the output sequence. If ``has_lengths`` is true, the step numbers are the operand after the inputs, and the
    sequences' lengths are the last operand.
    """

    cell: str
    has_lengths: bool = False
    name = "recurrence"


def recurrence(
    cell: str,
    name: str,
    x: Expr,
    weights: Expr,
    bias: Expr | None,
    state: Sequence[Expr],
    axis: int = 0,
    reverse: bool = False,
    lengths: Expr | None = None,
) -> tuple[Expr, tuple[Expr, ...]]:
    """Record a recurrence over ``x`` along ``axis``; return the sequence of outputs and the last state.

    The output of a step is the first tensor of its state. ``x`` (steps, N, gates · H) contains the inputs, already
    multiplied by their weights. ``weights`` (H, gates · H) and ``bias`` (gates · H) are applied to the state.
    ``lengths`` (N) are integers. At steps beyond its length, a sequence keeps its state, and its output is 0. Raises
    OperandError if a step changes the shapes or dtypes of the state.
    """
    rest = {"weights": weights, **({} if bias is None else {"bias": bias})}
    sequences: dict[str, Expr] = {"x": x}
    axes: tuple[int, ...] = (axis,)
    if lengths is not None:
        rest["lengths"], axes = lengths, (axis, 0)
        sequences["number"] = tensor(np.arange(x.shape[axis], dtype=lengths.dtype), name="number", device=x.device)
    elements = [
        Parameter(element_type(node.tensor_type, each), title)()
        for each, (title, node) in zip(axes, sequences.items(), strict=True)
    ]

    def step(state: list[Expr], elements: list[Expr], rest: dict[str, Expr]) -> list[Expr]:
        after = CELLS[cell](elements[0], rest["weights"], rest.get("bias"), *state)
        check_same_types(state, after, ("the state before a step", "the state after it"), name)
        if lengths is None:
            return [*after, after[0]]
        within = reshape(elements[1] < rest["lengths"], (-1, 1))
        kept = [where(within, new, old) for new, old in zip(after, state, strict=True)]
        return [*kept, where(within, after[0], 0)]

    titles = [*["h", "c"][: len(state)], *sequences, *rest]
    body, _ = recorded_body(step, name, [*state], elements, rest, titles=titles)
    operation = Recurrence(
        body, x.shape[axis], len(state), axes, (axis,), reverse, cell=cell, has_lengths=lengths is not None
    )
    operands = (*state, *sequences.values(), *rest.values())
    *last, sequence = outputs_of(record(operation, operands), len(state) + 1)
    return sequence, tuple(last)


def affine(x: Expr, weights: Expr, bias: Expr | None) -> Expr:
    """Compute x · W + b, or x · W if ``bias`` is None."""
    product = x @ weights
    return product if bias is None else product + bias


def gates(x: Expr, count: int) -> list[Expr]:
    """Split ``x`` along the last axis into ``count`` equal parts."""
    size = x.shape[-1] // count
    return [x[..., i * size : (i + 1) * size] for i in range(count)]
