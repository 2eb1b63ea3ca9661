"""Recurrent modules: one call of a cell for each step, in a box for each layer and direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.expr import Expr, scope
from explorer.core.tracing import Function
from explorer.formats.pnnx.operators.table import file_operator
from explorer.formats.recurrence import Cell, gru_cell, lstm_cell, relu_cell, rnn_cell, unroll
from explorer.net.context import OperatorContext
from explorer.ops.joining import concatenate, stack
from explorer.ops.structured import zeros


@file_operator("nn.LSTM")
def lstm(op: OperatorContext) -> Any:
    """Long short-term memory; outputs are the sequence, then the last states of all layers."""
    return _run(op, lstm_cell, "lstm", states=2)


@file_operator("nn.GRU")
def gru(op: OperatorContext) -> Any:
    """Gated recurrent units; outputs are the sequence, then the last states of all layers."""
    return _run(op, gru_cell, "gru", states=1)


@file_operator("nn.RNN")
def rnn(op: OperatorContext) -> Any:
    """A plain recurrent network with tanh or relu."""
    kind = op.argument("nonlinearity", "tanh")
    if kind not in ("tanh", "relu"):
        raise OperandError(f"nonlinearity={kind!r}", rule="nn.RNN: nonlinearity is tanh or relu")
    return _run(op, rnn_cell if kind == "tanh" else relu_cell, "rnn", states=1)


def _run(op: OperatorContext, cell: Cell, name: str, states: int) -> Any:
    op.only("proj_size", 0)
    x, hidden = op.x, op.integer("hidden_size")
    if x.ndim != 3:
        raise OperandError(f"given {x.type}", rule="a sequence is (N, steps, features), or (steps, N, features)")
    time_axis = 1 if op.flag("batch_first", False) else 0
    directions = 2 if op.flag("bidirectional", False) else 1
    layers = op.integer("num_layers", 1)
    initial = [op.tensor(1 + i) for i in range(states)] if len(op.operands) > 1 else []
    absent = (zeros((x.shape[1 - time_axis], hidden), x.dtype),) * (0 if initial else states)
    last: list[tuple[Expr, ...]] = []
    for layer in range(layers):
        sequences = []
        for direction in range(directions):
            suffix = f"_l{layer}" + "_reverse" * direction
            start = tuple(whole[layer * directions + direction] for whole in initial) or absent
            with scope(f"layer {layer}" + " reversed" * direction, "file"):
                sequence, state = _layer(
                    op, Function(cell, f"{name} step"), suffix, x, time_axis, bool(direction), start
                )
            sequences.append(sequence)
            last.append(state)
        x = sequences[0] if directions == 1 else concatenate(sequences, 2)
    if len(op.definition.outputs) == 1:
        return x
    return (x, *[stack([state[i] for state in last]) for i in range(states)])


def _layer(
    op: OperatorContext,
    step: Callable[..., Any],
    suffix: str,
    x: Expr,
    time_axis: int,
    backwards: bool,
    state: tuple[Expr, ...],
) -> tuple[Expr, tuple[Expr, ...]]:
    """The sequence that one layer makes in one direction, and its last state."""
    has_bias = op.flag("bias", True)
    entering = x @ op.weight(f"weight_ih{suffix}").T
    if has_bias:
        entering = entering + op.weight(f"bias_ih{suffix}")
    bias = op.weight(f"bias_hh{suffix}") if has_bias else None
    return unroll(step, entering, op.weight(f"weight_hh{suffix}").T, bias, state, time_axis, backwards)
