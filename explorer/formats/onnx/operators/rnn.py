"""Recurrent layers: one call of a cell for each step, in a box for each direction.

A layer is unrolled: each step is a call of one traced function, so that the cell is shown once, and steps of equal
layers batch. ONNX orders gates otherwise than torch, whose cells (formats/common/recurrence.py) are used; weights are
put into their order when the net is built.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope
from explorer.core.tracing.decorator import Function
from explorer.core.types.tensor_type import Shape
from explorer.formats.common.operator_checks import with_rank, with_shape
from explorer.formats.common.recurrence import Cell, affine, gates, gru_cell, lstm_cell, relu_cell, rnn_cell, unroll
from explorer.formats.onnx.operators.operator_inputs import given, is_given, known, optional, word
from explorer.formats.onnx.operators.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.creation.constants import zeros
from explorer.ops.elementwise.unary import sigmoid, tanh
from explorer.ops.manipulation.concat import concatenate, stack
from explorer.ops.manipulation.reshape import transpose

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def _peephole_cell(peephole: Expr, x: Expr, weights: Expr, bias: Expr | None, h: Expr, c: Expr) -> tuple[Expr, ...]:
    """Long short-term memory whose gates see the memory too; ``peephole`` is for entry, exit, forget."""
    entry, forget, candidate, exit = gates(affine(h, weights, bias) + x, 4)
    to_entry, to_exit, to_forget = gates(peephole, 3)
    memory = sigmoid(forget + to_forget * c) * c + sigmoid(entry + to_entry * c) * tanh(candidate)
    return sigmoid(exit + to_exit * memory) * tanh(memory), memory


def _early_gru_cell(x: Expr, weights: Expr, bias: Expr | None, h: Expr) -> tuple[Expr, ...]:
    """Gated recurrent unit whose reset acts on h before the product (linear_before_reset=0)."""
    size = h.shape[-1]
    reset, update, candidate = gates(x, 3)
    both = affine(h, weights[:, : 2 * size], None if bias is None else bias[: 2 * size])
    reset_h, update_h = gates(both, 2)
    kept = sigmoid(update + update_h)
    inner = affine(sigmoid(reset + reset_h) * h, weights[:, 2 * size :], None if bias is None else bias[2 * size :])
    fresh = tanh(candidate + inner)
    return (fresh + kept * (h - fresh),)


@operator("LSTM")
def lstm(op: OperatorContext) -> Any:
    """Long short-term memory; outputs are the sequence, and the last states."""
    _only_activations(op, ("Sigmoid", "Tanh", "Tanh"))
    op.only("input_forget", 0)
    # ONNX stores input, output, forget, cell; the cell function has torch's order: input, forget, cell, output.
    return _run(op, lstm_cell, "lstm", (0, 2, 3, 1), ("initial_h", "initial_c"))


@operator("GRU")
def gru(op: OperatorContext) -> Any:
    """Gated recurrent units; outputs are the sequence, and the last state."""
    _only_activations(op, ("Sigmoid", "Tanh"))
    cell = gru_cell if op.integer("linear_before_reset", 0) else _early_gru_cell
    # ONNX stores update, reset, hidden; torch's order is reset, update, hidden.
    return _run(op, cell, "gru", (1, 0, 2), ("initial_h",))


@operator("RNN")
def rnn(op: OperatorContext) -> Any:
    """A plain recurrent network with tanh or relu; outputs are the sequence, and the last state."""
    # one for each direction
    names = op.argument("activations", ("Tanh",))
    if names not in (("Tanh",) * len(names), ("Relu",) * len(names)):
        raise OperandError(f"activations={names}", rule="RNN: the activation must be Tanh or Relu")
    return _run(op, relu_cell if names[0] == "Relu" else rnn_cell, "rnn", (0,), ("initial_h",))


def _only_activations(op: OperatorContext, usual: tuple[str, ...]) -> None:
    names = op.argument("activations", usual)
    if names not in (usual, usual * 2):
        raise OperandError(
            f"activations={names}", rule=f"{op.definition.type}: the activations must be {', '.join(usual)}"
        )


def _run(op: OperatorContext, cell: Cell, name: str, order: tuple[int, ...], states: tuple[str, ...]) -> Any:
    if op.has("clip"):
        raise OperandError(f"clip={op.argument('clip')!r}", rule=f"{op.definition.type} must not have clip")
    x, batch_first = given(op, "X"), bool(op.integer("layout", 0))
    with_rank(op, "X", x, *(("N", "steps") if batch_first else ("steps", "N")), "features")
    x = transpose(x, (1, 0, 2)) if batch_first else x
    _check_lengths(op, x.shape[0])
    directions = _DIRECTIONS[word(op, "direction", "forward", tuple(_DIRECTIONS))]
    hidden = _check_shapes(op, x, len(directions), len(order), states, batch_first)
    bias, peepholes = optional(op, "B"), optional(op, "P")
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
        with scope("reversed" if backwards else "forward", "file"):
            used = cell if peepholes is None else partial(_peephole_cell, peepholes[number])
            sequence, state = unroll(
                Function(used, f"{name} step"), *_weights(op, x, bias, number, hidden, order), start, 0, backwards
            )
        sequences.append(sequence)
        last.append(state)
    results = [stack(sequences, 1), *[stack([state[i] for state in last]) for i in range(len(states))]]
    if batch_first:
        results = [transpose(results[0], (2, 0, 1, 3)), *[transpose(state, (1, 0, 2)) for state in results[1:]]]
    return tuple(results[: len(op.definition.outputs)])


def _check_shapes(
    op: OperatorContext, x: Expr, directions: int, gates: int, states: tuple[str, ...], batch_first: bool
) -> int:
    """Return the length of a state; raises OperandError for a weight or first state that does not fit it."""
    weights = with_rank(op, "R", given(op, "R"), "directions", f"{gates} · hidden", "hidden")
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
    op: OperatorContext, x: Expr, bias: Expr | None, number: int, hidden: int, order: tuple[int, ...]
) -> tuple[Expr, Expr, Expr | None]:
    """Return the inputs' part of the gates, the state's weights and their bias of one direction, in torch's order."""

    def ordered(gates: Expr) -> Expr:
        parts = [gates[gate * hidden : (gate + 1) * hidden] for gate in order]
        return parts[0] if len(parts) == 1 else concatenate(parts)

    entering = x @ ordered(given(op, "W")[number]).T
    weights = ordered(given(op, "R")[number]).T
    if bias is None:
        return entering, weights, None
    count = len(order) * hidden
    return entering + ordered(bias[number, :count]), weights, ordered(bias[number, count:])


def _check_lengths(op: OperatorContext, steps: int) -> None:
    if is_given(op, "sequence_lens") and (known(op, "sequence_lens") != steps).any():
        raise OperandError(
            "sequences of different lengths", rule=f"{op.definition.type}: every sequence must have all {steps} steps"
        )
