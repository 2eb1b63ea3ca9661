"""Recurrent operators: one recurrence for each direction, whatever the number of steps.

ONNX orders gates otherwise than torch, whose cells (ops/control/recurrence.py) are used; weights are put into their
order when the net is built. What these cells do not have, such as peepholes and lengths of sequences, is a scan of a
cell that has it (rnn_cells.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import Shape
from explorer.formats.common.known_inputs import is_given, is_known, optional, required, value_of
from explorer.formats.common.operator_checks import with_rank, with_shape
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.rnn_cells import CellOptions, options_of
from explorer.net.operators.context import OperatorContext
from explorer.ops.control.recurrence import recurrence
from explorer.ops.control.scan import scan_operands
from explorer.ops.creation.constants import zeros
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import concatenate, stack
from explorer.ops.manipulation.reshape import reshape, transpose

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


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
    with_rank(op, "X", x, *(("N", "steps") if batch_first else ("steps", "N")), "features")
    x = transpose(x, (1, 0, 2)) if batch_first else x
    lengths = _lengths(op, x)
    directions = _DIRECTIONS[op.word("direction", "forward", tuple(_DIRECTIONS))]
    options = options_of(op, len(directions))
    hidden = _check_shapes(op, x, len(directions), len(order), states, batch_first)
    # fetched here: a weight stands in the box where it was fetched last, and both directions read these
    both, peepholes = (required(op, "W"), required(op, "R"), optional(op, "B")), optional(op, "P")
    starts = [optional(op, state) for state in states]
    sequences: list[Expr] = []
    last: list[tuple[Expr, ...]] = []
    for number, backwards in enumerate(directions):
        start = tuple(
            zeros((x.shape[1], hidden), x.dtype)
            if whole is None
            else whole[:, number]
            if batch_first
            else whole[number]
            for whole in starts
        )
        peephole = None if peepholes is None else peepholes[number]
        with scope("reversed" if backwards else "forward", "file"):
            weights = _weights(x, both, number, hidden, order)
            sequence, state = _steps(op, options[number], weights, peephole, start, lengths, backwards)
            state = _of_sequences(x, lengths, state)
        sequences.append(sequence)
        last.append(state)
    results = [stack(sequences, 1), *[stack([state[i] for state in last]) for i in range(len(states))]]
    if batch_first:
        results = [transpose(results[0], (2, 0, 1, 3)), *[transpose(state, (1, 0, 2)) for state in results[1:]]]
    return tuple(results[: len(op.definition.outputs)])


def _steps(
    op: OperatorContext,
    options: CellOptions,
    parts: tuple[Expr, Expr, Expr | None],
    peephole: Expr | None,
    start: tuple[Expr, ...],
    lengths: Expr | None,
    backwards: bool,
) -> tuple[Expr, tuple[Expr, ...]]:
    """Return the sequence and the last states of one direction: a recurrence of a known cell, or a scan."""
    entering, weights, bias = parts
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


def _of_sequences(x: Expr, lengths: Expr | None, state: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Return the last states, which are zeros for a sequence without steps, as ONNX Runtime has it."""
    if not x.shape[0]:
        return tuple([zeros(each.shape, each.dtype) for each in state])
    if lengths is None or (is_known(lengths) and (value_of(lengths) > 0).all()):
        return state
    return tuple([where(reshape(lengths > 0, (-1, 1)), each, 0) for each in state])


def _check_shapes(
    op: OperatorContext, x: Expr, directions: int, gates: int, states: tuple[str, ...], batch_first: bool
) -> int:
    """Return the length of a state; raises OperandError for a weight or first state that does not fit it."""
    weights = with_rank(op, "R", required(op, "R"), "directions", f"{gates} · hidden", "hidden")
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
            with_shape(op, name, value, shape)
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


def _lengths(op: OperatorContext, x: Expr) -> Expr | None:
    """Return the lengths of the sequences; None where all have all steps."""
    if not is_given(op, "sequence_lens"):
        return None
    lengths = with_shape(op, "sequence_lens", required(op, "sequence_lens"), (x.shape[1],))
    if is_known(lengths) and (value_of(lengths) == x.shape[0]).all():
        return None
    return lengths
