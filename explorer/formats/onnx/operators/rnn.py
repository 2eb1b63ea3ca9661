"""Recurrent operators: one recurrence for each direction, whatever the number of steps.

ONNX orders gates otherwise than torch, whose cells (ops/control/recurrence.py) are used; weights are put into their
order when the net is built. What these cells do not have, such as peepholes and lengths of sequences, is a scan of a
cell that has it (recurrent_directions.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import Shape
from explorer.formats.common.operator_checks import with_rank, with_shape
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.recurrent_directions import (
    Direction,
    Operands,
    directions_of,
    each_direction,
    lengths_of,
)
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import optional, required
from explorer.ops.control.recurrence import recurrence
from explorer.ops.control.scan import scan_operands
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.reshape import reshape, transpose


@operator("LSTM")
def lstm(op: OperatorContext) -> Any:
    """Long short-term memory; outputs are the sequence, and the last states."""
    # ONNX stores input, output, forget, cell; the cell function has torch's order: input, forget, cell, output.
    return _run(op, (0, 2, 3, 1), ("initial_h", "initial_c"))


@operator("GRU")
def gru(op: OperatorContext) -> Any:
    """Gated recurrent units; outputs are the sequence, and the last state."""
    # ONNX stores update, reset, hidden; torch's order is reset, update, hidden.
    return _run(op, (1, 0, 2), ("initial_h",))


@operator("RNN")
def rnn(op: OperatorContext) -> Any:
    """A plain recurrent network; outputs are the sequence, and the last state."""
    return _run(op, (0,), ("initial_h",))


def _run(op: OperatorContext, order: tuple[int, ...], states: tuple[str, ...]) -> Any:
    x, batch_first = required(op, "X"), bool(op.integer("layout", 0))
    with_rank("X", x, *(("N", "steps") if batch_first else ("steps", "N")), "features")
    x = transpose(x, (1, 0, 2)) if batch_first else x
    lengths = lengths_of(op, "sequence_lens", x)
    directions = directions_of(op)
    hidden = _check_shapes(op, x, len(directions), len(order), states, batch_first)
    # fetched here: a weight stands in the box where it was fetched last, and both directions read these
    both, peepholes = (required(op, "W"), required(op, "R"), optional(op, "B")), optional(op, "P")
    starts = tuple([optional(op, state) for state in states])

    def steps(direction: Direction) -> tuple[Expr, tuple[Expr, ...]]:
        weights = _weights(x, both, direction.number, hidden, order)
        return _steps(op, direction, weights, lengths)

    operands = Operands(x, lengths, starts, peepholes, hidden)
    results = each_direction(op, op.definition.type, operands, directions, steps, batch_first)
    if batch_first:
        results = [transpose(results[0], (2, 0, 1, 3)), *[transpose(state, (1, 0, 2)) for state in results[1:]]]
    return tuple(results[: len(op.definition.outputs)])


def _steps(
    op: OperatorContext, direction: Direction, parts: tuple[Expr, Expr, Expr | None], lengths: Expr | None
) -> tuple[Expr, tuple[Expr, ...]]:
    """Return the sequence and the last states of one direction: a recurrence of a known cell, or a scan."""
    entering, weights, bias = parts
    _, backwards, options, peephole, start = direction
    name = op.definition.type.lower()
    if options.known and peephole is None:
        return recurrence(options.known, name, entering, weights, bias, start, 0, backwards, lengths)

    def step(state: list[Expr], elements: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        after = options.step(elements[0], weights, bias, peephole, *state)
        if lengths is None:
            return [*after], [after[0]]
        # behind its end a sequence keeps its state, and its output is 0
        within = reshape(elements[1] < lengths, (-1, 1))
        return [where(within, new, old) for new, old in zip(after, state, strict=True)], [where(within, after[0], 0)]

    numbers = [] if lengths is None else [tensor(np.arange(entering.shape[0], dtype=lengths.dtype))]
    sequences = [entering, *numbers]
    *last, sequence = scan_operands(step, start, sequences, (0,) * len(sequences), None, backwards, name)
    return sequence, tuple(last)


def _check_shapes(
    op: OperatorContext, x: Expr, directions: int, gates: int, states: tuple[str, ...], batch_first: bool
) -> int:
    """Return the length of a state; raises OperandError for a weight or first state that does not fit it."""
    weights = with_rank("R", required(op, "R"), "directions", f"{gates} · hidden", "hidden")
    hidden = op.integer("hidden_size", weights.shape[2])
    start = (x.shape[1], directions, hidden) if batch_first else (directions, x.shape[1], hidden)
    shapes: dict[str, Shape] = {
        "W": (directions, gates * hidden, x.shape[2]),
        "R": (directions, gates * hidden, hidden),
        "B": (directions, 2 * gates * hidden),
        "P": (directions, 3 * hidden),
        **dict.fromkeys(states, start),
    }
    for name, shape in shapes.items():
        value = optional(op, name)
        if value is not None:
            with_shape(name, value, shape)
    return hidden


def _weights(
    x: Expr, weights: tuple[Expr, Expr, Expr | None], number: int, hidden: int, order: tuple[int, ...]
) -> tuple[Expr, Expr, Expr | None]:
    """Return the inputs' part of the gates, the state's weights and their bias of one direction, in torch's order."""

    def ordered(gates: Expr) -> Expr:
        parts = [gates[gate * hidden : (gate + 1) * hidden] for gate in order]
        return parts[0] if len(parts) == 1 else concatenate(parts)

    of_inputs, of_state, bias = weights
    entering = x @ ordered(of_inputs[number]).T
    state_weights = ordered(of_state[number]).T
    if bias is None:
        return entering, state_weights, None
    # B holds the biases of the inputs' part, and behind them those of the state's part.
    count = len(order) * hidden
    return entering + ordered(bias[number, :count]), state_weights, ordered(bias[number, count:])
