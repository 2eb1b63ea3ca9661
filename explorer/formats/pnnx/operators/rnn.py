"""Recurrent modules for any number of steps. Each layer and direction is one recurrence in its own box.

Weights have torch's names, which contain the layer and the direction, such as ``weight_ih_l0`` (for the input) and
``weight_hh_l0_reverse`` (for the state).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope
from explorer.formats.common.operator_checks import with_rank, with_shape
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.signature import Names, Unused
from explorer.ops.control.recurrence import lstm_cell, recurrence
from explorer.ops.control.scan import scan_operands
from explorer.ops.creation.constants import zeros
from explorer.ops.manipulation.concat import concatenate, stack

Results = Expr | tuple[Expr, ...]


@dataclass(frozen=True)
class Options:
    """Arguments of all recurrent modules."""

    hidden_size: int
    ignored: Annotated[Unused, Names("input_size", "dropout")]
    """a size that the weights determine, and a rate that affects only training"""
    num_layers: int = 1
    bias: bool = True
    batch_first: bool = False
    bidirectional: bool = False
    one_of: tuple[str, ...] = ()
    """possible names of the only result, if its shape is ambiguous"""


@file_operator("nn.LSTM")
def lstm(
    op: OperatorContext,
    input: Expr,
    h_0: Expr | None = None,
    c_0: Expr | None = None,
    *,
    proj_size: int = 0,
    options: Options,
) -> Results:
    """Run an LSTM; return the output sequence, then the final states of all layers."""
    if not 0 <= proj_size < options.hidden_size:
        raise OperandError(
            f"proj_size={proj_size} with hidden_size={options.hidden_size}",
            rule="proj_size must be 0, or smaller than hidden_size",
        )
    if h_0 is not None and c_0 is None:
        raise OperandError("the initial state h_0 without c_0", rule="both initial states must be given, or neither")
    return _run(op, input, (h_0, c_0), options, "lstm", "lstm", gates=4, short=proj_size)


@file_operator("nn.GRU")
def gru(
    op: OperatorContext, input: Expr, h_0: Expr | None = None, *, proj_size: Literal[0] = 0, options: Options
) -> Results:
    """Run gated recurrent units; return the output sequence, then the final states of all layers."""
    return _run(op, input, (h_0,), options, "gru", "gru", gates=3)


@file_operator("nn.RNN")
def rnn(
    op: OperatorContext,
    input: Expr,
    h_0: Expr | None = None,
    *,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
    proj_size: Literal[0] = 0,
    options: Options,
) -> Results:
    """Run an Elman network with tanh or relu; return the output sequence, then the final states of all layers."""
    return _run(op, input, (h_0,), options, "rnn" if nonlinearity == "tanh" else "relu rnn", "rnn", gates=1)


def _run(
    op: OperatorContext,
    x: Expr,
    first: tuple[Expr | None, ...],
    options: Options,
    cell: str,
    name: str,
    gates: int,
    short: int = 0,
) -> Results:
    hidden, layers, states = options.hidden_size, options.num_layers, len(first)
    time_axis = 1 if options.batch_first else 0
    with_rank("the sequence", x, *(("N", "steps") if time_axis else ("steps", "N")), "features")
    directions = 2 if options.bidirectional else 1
    lengths = (short or hidden, hidden)[:states]
    batch = x.shape[1 - time_axis]
    initial = [
        with_shape(f"initial state {i}", state, (layers * directions, batch, length))
        for i, (state, length) in enumerate(zip(first, lengths, strict=True))
        if state is not None
    ]
    default = () if initial else tuple(zeros((batch, length), x.dtype) for length in lengths)
    last: list[tuple[Expr, ...]] = []
    for layer in range(layers):
        sequences = []
        for direction in range(directions):
            suffix = f"_l{layer}" + "_reverse" * direction
            start = tuple(states_of_layers[layer * directions + direction] for states_of_layers in initial) or default
            with scope(f"layer {layer}" + " reversed" * direction, "file"):
                weights = _weights(op, suffix, options.bias, gates, x, hidden, short)
                if short:
                    projection = with_shape("weight_hr", op.weight(f"weight_hr{suffix}"), (short, hidden)).T
                    sequence, state = _projected(weights, projection, start, time_axis, bool(direction))
                else:
                    sequence, state = recurrence(cell, name, *weights, start, time_axis, bool(direction))
            sequences.append(sequence)
            last.append(state)
        x = sequences[0] if directions == 1 else concatenate(sequences, 2)
    count = len(op.definition.outputs)
    if count == 1:
        _check_result(options.one_of, is_single=x.shape[time_axis] == layers * directions == 1)
        return x
    if count < 1 + states:
        raise OperandError(
            f"{count - 1} of the {states} last states",
            rule="the file must have both last states, h_n and c_n, or neither, since it does not contain their names",
            fix="return both from forward and export again, or open the module: ex.open(module, inputs)",
        )
    return (x, *[stack([state[i] for state in last]) for i in range(states)])


def _check_result(possible: tuple[str, ...], *, is_single: bool) -> None:
    """Raise OperandError if the only result may be a state, except for a single step, where h_n equals the output."""
    if possible and not (is_single and "c_n" not in possible):
        raise OperandError(
            f"one result, which may be {' or '.join(possible)}: they have the same shape",
            rule="the shape must identify a result, since the file does not contain its name",
            fix="export with inputs of another number of steps or samples, return all results from forward, or open "
            "the module: ex.open(module, inputs)",
        )


def _projected(
    parts: tuple[Expr, Expr, Expr | None], projection: Expr, start: tuple[Expr, ...], axis: int, backwards: bool
) -> tuple[Expr, tuple[Expr, ...]]:
    """Run an LSTM and project its output to fewer features; return the output sequence and the final states."""
    projected_input, weights, bias = parts

    def step(state: list[Expr], elements: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        hidden, memory = lstm_cell(elements[0], weights, bias, *state)
        output = hidden @ projection
        return [output, memory], [output]

    *last, sequence = scan_operands(step, start, [projected_input], (axis,), (axis,), backwards, "lstm")
    return sequence, tuple(last)


def _weights(
    op: OperatorContext, suffix: str, has_bias: bool, gates: int, x: Expr, hidden: int, short: int
) -> tuple[Expr, Expr, Expr | None]:
    """Return the operands for one layer and direction: the projected input, the state's weights and the state's bias.

    ``suffix`` names the layer and direction. The projected input is the contribution of ``x`` to the gates.
    """

    def weight(name: str, *shape: int) -> Expr:
        return with_shape(name + suffix, op.weight(name + suffix), shape)

    projected_input = x @ weight("weight_ih", gates * hidden, x.shape[2]).T
    if has_bias:
        projected_input = projected_input + weight("bias_ih", gates * hidden)
    bias = weight("bias_hh", gates * hidden) if has_bias else None
    return projected_input, weight("weight_hh", gates * hidden, short or hidden).T, bias
