"""Recurrent modules: one recurrence for each layer and direction, in a box of its own, whatever the number of steps.

Weights are named as torch names them, weight_ih_l0 and weight_hh_l0_reverse: the input's and the state's, by layer and
direction.
"""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope
from explorer.formats.common.operator_checks import with_rank, with_shape
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.recurrent_results import ONE_OF
from explorer.net.operators.context import OperatorContext
from explorer.ops.control.recurrence import lstm_cell, recurrence
from explorer.ops.control.scan import scan_operands
from explorer.ops.creation.constants import zeros
from explorer.ops.manipulation.concat import concatenate, stack

_IGNORED = ("input_size", "dropout")
"""a size that the weights have, too, and what training alone does"""


@file_operator("nn.LSTM", ignored=_IGNORED)
def lstm(op: OperatorContext) -> Any:
    """Long short-term memory; outputs are the sequence, then the last states of all layers."""
    return _run(op, "lstm", "lstm", gates=4, states=2)


@file_operator("nn.GRU", ignored=_IGNORED)
def gru(op: OperatorContext) -> Any:
    """Gated recurrent units; outputs are the sequence, then the last states of all layers."""
    return _run(op, "gru", "gru", gates=3, states=1)


@file_operator("nn.RNN", ignored=_IGNORED)
def rnn(op: OperatorContext) -> Any:
    """A plain recurrent network with tanh or relu."""
    nonlinearity = op.argument("nonlinearity", "tanh")
    if nonlinearity not in ("tanh", "relu"):
        raise OperandError(f"nonlinearity={nonlinearity!r}", rule="nn.RNN: nonlinearity must be tanh or relu")
    return _run(op, "rnn" if nonlinearity == "tanh" else "relu rnn", "rnn", gates=1, states=1)


def _run(op: OperatorContext, cell: str, name: str, gates: int, states: int) -> Any:
    x, hidden, short = op.x, op.integer("hidden_size"), op.integer("proj_size", 0)
    if not 0 <= short < hidden or (short and cell != "lstm"):
        raise OperandError(
            f"proj_size={short} with hidden_size={hidden}",
            rule=f"{op.definition.type}: proj_size must be 0, or for an LSTM smaller than hidden_size",
        )
    time_axis = 1 if op.flag("batch_first", False) else 0
    with_rank("the sequence", x, *(("N", "steps") if time_axis else ("steps", "N")), "features")
    directions = 2 if op.flag("bidirectional", False) else 1
    layers = op.integer("num_layers", 1)
    lengths = (short or hidden, hidden)[:states]
    members = x.shape[1 - time_axis]
    initial = [
        with_shape(f"first state {i}", op.tensor(1 + i), (layers * directions, members, length))
        for i, length in enumerate(lengths if len(op.passed) > 1 else ())
    ]
    absent = () if initial else tuple(zeros((members, length), x.dtype) for length in lengths)
    last: list[tuple[Expr, ...]] = []
    for layer in range(layers):
        sequences = []
        for direction in range(directions):
            suffix = f"_l{layer}" + "_reverse" * direction
            start = tuple(whole[layer * directions + direction] for whole in initial) or absent
            with scope(f"layer {layer}" + " reversed" * direction, "file"):
                weights = _weights(op, suffix, gates, x, hidden, short)
                if short:
                    shorten = with_shape("weight_hr", op.weight(f"weight_hr{suffix}"), (short, hidden)).T
                    sequence, state = _projected(weights, shorten, start, time_axis, bool(direction))
                else:
                    sequence, state = recurrence(cell, name, *weights, start, time_axis, bool(direction))
            sequences.append(sequence)
            last.append(state)
        x = sequences[0] if directions == 1 else concatenate(sequences, 2)
    count = len(op.definition.outputs)
    if count == 1:
        _check_result(op, is_single=x.shape[time_axis] == layers * directions == 1)
        return x
    if count < 1 + states:
        raise OperandError(
            f"{count - 1} of the {states} last states, without its name",
            rule=f"{op.definition.type}: the file must have both last states, h_n and c_n, or neither: their names "
            "are not in it",
            fix="return both from forward and export again, or open the module: ex.open(module, inputs)",
        )
    return (x, *[stack([state[i] for state in last]) for i in range(states)])


def _check_result(op: OperatorContext, *, is_single: bool) -> None:
    """Raise OperandError where the only result may be a state; after a single step h_n is the sequence."""
    possible: Any = op.argument(ONE_OF, None)
    if possible is not None and not (is_single and "c_n" not in possible):
        raise OperandError(
            f"one result, which may be {' or '.join(map(str, possible))}: they have the same shape",
            rule=f"{op.definition.type}: a result must be known by its shape, since its name is not in the file",
            fix="export with inputs of another number of steps or samples, return all results from forward, or open "
            "the module: ex.open(module, inputs)",
        )


def _projected(
    parts: tuple[Expr, Expr, Expr | None], shorten: Expr, start: tuple[Expr, ...], axis: int, backwards: bool
) -> tuple[Expr, tuple[Expr, ...]]:
    """Return the sequence and the last states of an LSTM whose output is a product, shorter than its memory."""
    entering, weights, bias = parts

    def step(state: list[Expr], elements: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        long, memory = lstm_cell(elements[0], weights, bias, *state)
        output = long @ shorten
        return [output, memory], [output]

    *last, sequence = scan_operands(step, start, [entering], (axis,), (axis,), backwards, "lstm")
    return sequence, tuple(last)


def _weights(
    op: OperatorContext, suffix: str, gates: int, x: Expr, hidden: int, short: int
) -> tuple[Expr, Expr, Expr | None]:
    """The inputs' part of the gates, the state's weights and their bias, of one layer in one direction."""
    has_bias = op.flag("bias", True)

    def weight(name: str, *shape: int) -> Expr:
        return with_shape(name + suffix, op.weight(name + suffix), shape)

    entering = x @ weight("weight_ih", gates * hidden, x.shape[2]).T
    if has_bias:
        entering = entering + weight("bias_ih", gates * hidden)
    bias = weight("bias_hh", gates * hidden) if has_bias else None
    return entering, weight("weight_hh", gates * hidden, short or hidden).T, bias
