"""Recurrent operators (LSTM, GRU, RNN), with one recurrence per direction.

The cells of ops/control/recurrence.py have torch's order of gates, so ONNX's weights are reordered while the net is
built. An operator with a feature that these cells lack, such as peepholes, is recorded as a scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import Shape
from explorer.formats.common.operator_checks import with_rank, with_shape
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.known_inputs import is_known, value_of
from explorer.net.operators.signature import Outputs
from explorer.ops.control.recurrence import affine, gates, recurrence
from explorer.ops.control.scan import scan_operands
from explorer.ops.creation.constants import zeros
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import relu, sigmoid, softplus, tanh
from explorer.ops.manipulation.concat import concatenate, stack
from explorer.ops.manipulation.reshape import reshape, transpose
from explorer.ops.nn.activation import clip as clipped
from explorer.ops.nn.activation import elu, leaky_relu, softsign

DirectionName: TypeAlias = Literal["forward", "reverse", "bidirectional"]
Reals: TypeAlias = tuple[float, ...]
Strings: TypeAlias = tuple[str, ...]
_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""indices of torch's gates in ONNX's order: input, output, forget, cell for LSTM; update, reset, hidden for GRU"""


@operator("LSTM")
def lstm(
    X: Expr,
    W: Expr,
    R: Expr,
    B: Expr | None = None,
    sequence_lens: Expr | None = None,
    initial_h: Expr | None = None,
    initial_c: Expr | None = None,
    P: Expr | None = None,
    *,
    activation_alpha: Reals = (),
    activation_beta: Reals = (),
    activations: Strings | None = None,
    clip: float | None = None,
    direction: DirectionName = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    outputs: Outputs,
) -> tuple[Expr, ...]:
    """Record a long short-term memory; return the sequence and the last states."""
    coupled = bool(input_forget)
    cells = cells_of("LSTM", direction, activations, activation_alpha, activation_beta, clip, coupled=coupled)
    states = {"initial_h": initial_h, "initial_c": initial_c}
    return _run(cells, X, (W, R, B), sequence_lens, states, P, hidden_size, layout)[:outputs]


@operator("GRU")
def gru(
    X: Expr,
    W: Expr,
    R: Expr,
    B: Expr | None = None,
    sequence_lens: Expr | None = None,
    initial_h: Expr | None = None,
    *,
    activation_alpha: Reals = (),
    activation_beta: Reals = (),
    activations: Strings | None = None,
    clip: float | None = None,
    direction: DirectionName = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    outputs: Outputs,
) -> tuple[Expr, ...]:
    """Record gated recurrent units; return the sequence and the last state."""
    reset_before_product = not linear_before_reset
    cells = cells_of(
        "GRU",
        direction,
        activations,
        activation_alpha,
        activation_beta,
        clip,
        reset_before_product=reset_before_product,
    )
    return _run(cells, X, (W, R, B), sequence_lens, {"initial_h": initial_h}, None, hidden_size, layout)[:outputs]


@operator("RNN")
def rnn(
    X: Expr,
    W: Expr,
    R: Expr,
    B: Expr | None = None,
    sequence_lens: Expr | None = None,
    initial_h: Expr | None = None,
    *,
    activation_alpha: Reals = (),
    activation_beta: Reals = (),
    activations: Strings | None = None,
    clip: float | None = None,
    direction: DirectionName = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    outputs: Outputs,
) -> tuple[Expr, ...]:
    """Record a simple recurrent network; return the sequence and the last state."""
    cells = cells_of("RNN", direction, activations, activation_alpha, activation_beta, clip)
    return _run(cells, X, (W, R, B), sequence_lens, {"initial_h": initial_h}, None, hidden_size, layout)[:outputs]


Weights: TypeAlias = tuple[Expr, Expr, Expr | None]
"""W, R and B"""


def _run(
    cells: list[Cell],
    x: Expr,
    weights: Weights,
    sequence_lens: Expr | None,
    states: dict[str, Expr | None],
    peepholes: Expr | None,
    hidden_size: int | None,
    layout: int,
) -> tuple[Expr, ...]:
    batch_first, order = bool(layout), _GATES[cells[0].type]
    with_rank("X", x, *(("N", "steps") if batch_first else ("steps", "N")), "features")
    x = transpose(x, (1, 0, 2)) if batch_first else x
    lengths, count, parts = lengths_of(sequence_lens, x), len(cells), len(order)
    gate_inputs, recurrent, bias = weights
    with_rank("R", recurrent, "directions", f"{parts} · hidden", "hidden")
    hidden = recurrent.shape[2] if hidden_size is None else hidden_size
    start = (x.shape[1], count, hidden) if batch_first else (count, x.shape[1], hidden)
    wanted: dict[str, tuple[Expr | None, Shape]] = {
        "W": (gate_inputs, (count, parts * hidden, x.shape[2])),
        "R": (recurrent, (count, parts * hidden, hidden)),
        "B": (bias, (count, 2 * parts * hidden)),
        "P": (peepholes, (count, 3 * hidden)),
        **{name: (state, start) for name, state in states.items()},
    }
    check_shapes(wanted)

    def steps(direction: Direction) -> tuple[Expr, tuple[Expr, ...]]:
        return _steps(direction, _weights(x, weights, direction.number, hidden, order), lengths)

    results = each_direction(cells, Operands(x, lengths, tuple(states.values()), peepholes, hidden), steps, batch_first)
    if batch_first:
        results = [transpose(results[0], (2, 0, 1, 3)), *[transpose(state, (1, 0, 2)) for state in results[1:]]]
    return tuple(results)


def check_shapes(wanted: dict[str, tuple[Expr | None, Shape]]) -> None:
    """Raise OperandError if an operand lacks its expected shape; ``wanted`` maps names to operands and shapes."""
    for name, (value, shape) in wanted.items():
        if value is not None:
            with_shape(name, value, shape)


def _steps(direction: Direction, parts: Weights, lengths: Expr | None) -> tuple[Expr, tuple[Expr, ...]]:
    """Return the sequence and the last states of one direction, recorded as a known recurrence or a scan."""
    gate_inputs, weights, bias = parts
    _, cell, peephole, start = direction
    name = cell.type.lower()
    if cell.known and peephole is None:
        return recurrence(cell.known, name, gate_inputs, weights, bias, start, 0, cell.backwards, lengths)

    def step(state: list[Expr], elements: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        after = cell.step(elements[0], weights, bias, peephole, *state)
        if lengths is None:
            return [*after], [after[0]]
        # after the end of a sequence, its state is kept and its output is 0
        within = reshape(elements[1] < lengths, (-1, 1))
        return [where(within, new, old) for new, old in zip(after, state, strict=True)], [where(within, after[0], 0)]

    numbers = [] if lengths is None else [tensor(np.arange(gate_inputs.shape[0], dtype=lengths.dtype))]
    sequences = [gate_inputs, *numbers]
    *last, sequence = scan_operands(step, start, sequences, (0,) * len(sequences), None, cell.backwards, name)
    return sequence, tuple(last)


def _weights(x: Expr, weights: Weights, number: int, hidden: int, order: tuple[int, ...]) -> Weights:
    """Return the gate inputs (x · weights + bias), state weights and state bias, with gates in torch's order."""

    def ordered(gates: Expr) -> Expr:
        parts = [gates[..., gate * hidden : (gate + 1) * hidden] for gate in order]
        return parts[0] if len(parts) == 1 else concatenate(parts, -1)

    input_weights, recurrent_weights, bias = weights
    gate_inputs = x @ ordered(input_weights[number].T)
    state_weights = ordered(recurrent_weights[number].T)
    if bias is None:
        return gate_inputs, state_weights, None
    # B contains the input biases, followed by the state biases.
    count = len(order) * hidden
    return gate_inputs + ordered(bias[number, :count]), state_weights, ordered(bias[number, count:])


class Operands(NamedTuple):
    """Operands of a recurrent operator except its weights."""

    x: Expr
    """(steps, N, features)"""
    lengths: Expr | None
    """sequence lengths, (N,); None if no sequence is padded"""
    starts: tuple[Expr | None, ...]
    """initial states, (directions, N, hidden); None for zeros"""
    peepholes: Expr | None
    hidden: int


class Direction(NamedTuple):
    """One direction of a recurrent operator, without its weights."""

    number: int
    cell: Cell
    peephole: Expr | None
    start: tuple[Expr, ...]
    """initial states, (N, hidden)"""


def each_direction(
    cells: list[Cell],
    operands: Operands,
    steps: Callable[[Direction], tuple[Expr, tuple[Expr, ...]]],
    batch_first: bool = False,
) -> list[Expr]:
    """Return the sequences (steps, directions, N, hidden) and the last states (directions, N, hidden).

    ``steps`` records one direction and returns its sequence and last states. With ``batch_first``, N is the first axis
    of the initial states.
    """
    x, lengths, starts, peepholes, hidden = operands
    sequences: list[Expr] = []
    last: list[tuple[Expr, ...]] = []
    for number, cell in enumerate(cells):
        start = tuple(
            zeros((x.shape[1], hidden), x.dtype)
            if whole is None
            else whole[:, number]
            if batch_first
            else whole[number]
            for whole in starts
        )
        peephole = None if peepholes is None else peepholes[number]
        with scope("reversed" if cell.backwards else "forward", "file"):
            sequence, state = steps(Direction(number, cell, peephole, start))
            state = _zeros_for_empty_sequences(x, lengths, state)
        sequences.append(sequence)
        last.append(state)
    return [_stacked(sequences, 1), *[_stacked([state[i] for state in last], 0) for i in range(len(starts))]]


def _stacked(parts: list[Expr], axis: int) -> Expr:
    """Stack the values of one or two directions along a new axis; with one direction, no element is copied."""
    if len(parts) > 1:
        return stack(parts, axis)
    shape = parts[0].shape
    return reshape(parts[0], (*shape[:axis], 1, *shape[axis:]))


def lengths_of(lengths: Expr | None, x: Expr) -> Expr | None:
    """Return the sequence lengths after checking their shape; None if no sequence is padded."""
    if lengths is None:
        return None
    with_shape("sequence_lens", lengths, (x.shape[1],))
    if is_known(lengths) and (value_of(lengths) == x.shape[0]).all():
        return None
    return lengths


def _zeros_for_empty_sequences(x: Expr, lengths: Expr | None, state: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Set the last states of sequences without steps to 0, as ONNX Runtime does."""
    if not x.shape[0]:
        return tuple([zeros(each.shape, each.dtype) for each in state])
    if lengths is None or (is_known(lengths) and (value_of(lengths) > 0).all()):
        return state
    return tuple([where(reshape(lengths > 0, (-1, 1)), each, 0) for each in state])


Activation: TypeAlias = Callable[[Expr], Expr]
_DEFAULT_ACTIVATIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
_PARAMETERS = {
    "Affine": (1.0, 0.0),
    "LeakyRelu": (0.01,),
    "ThresholdedRelu": (1.0,),
    "ScaledTanh": (1.0, 1.0),
    "HardSigmoid": (0.2, 0.5),
    "Elu": (1.0,),
}
"""defaults of alpha and beta for each activation"""
_FORMULAS: dict[str, Callable[..., Expr]] = {
    "Sigmoid": sigmoid,
    "Tanh": tanh,
    "Relu": relu,
    "Softplus": softplus,
    "Softsign": softsign,
    "Affine": lambda x, alpha, beta: x * alpha + beta,
    "LeakyRelu": leaky_relu,
    "ThresholdedRelu": lambda x, alpha: where(x > alpha, x, 0),
    "ScaledTanh": lambda x, alpha, beta: tanh(x * beta) * alpha,
    "HardSigmoid": lambda x, alpha, beta: clipped(x * alpha + beta, 0, 1),
    "Elu": elu,
}


@dataclass(frozen=True, slots=True)
class Cell:
    """Options of the cell of one direction."""

    type: str
    backwards: bool
    """whether the direction starts at the last step"""
    names: tuple[str, ...]
    activations: tuple[Activation, ...]
    clip: float | None
    coupled: bool
    """whether the forget gate is 1 − input gate"""
    reset_before_product: bool
    """whether the reset gate multiplies the state before the matrix product"""

    @property
    def known(self) -> str:
        """Name of the cell in ``ops.control.recurrence.CELLS``; "" if no cell there has these options."""
        if self.clip is not None or self.coupled:
            return ""
        if self.type == "RNN":
            return {"Tanh": "rnn", "Relu": "relu rnn"}.get(self.names[0], "")
        if self.names != _DEFAULT_ACTIVATIONS[self.type]:
            return ""
        return "lstm" if self.type == "LSTM" else "early gru" if self.reset_before_product else "gru"

    def step(self, x: Expr, weights: Expr, bias: Expr | None, peephole: Expr | None, *state: Expr) -> tuple[Expr, ...]:
        """Return the next state; ``x`` contains the gate inputs in torch's order."""
        if self.type == "LSTM":
            return self.lstm(affine(state[0], weights, bias) + x, peephole, state[1])
        (h,) = state
        if self.type == "RNN":
            return (self.activations[0](self._clipped(affine(h, weights, bias) + x)),)
        return self._gru(x, weights, bias, h)

    def _clipped(self, x: Expr) -> Expr:
        return x if self.clip is None else clipped(x, -self.clip, self.clip)

    def lstm(self, sums: Expr, peephole: Expr | None, c: Expr) -> tuple[Expr, Expr]:
        """Return the next h and c; ``sums`` are the gates before activation, in torch's order."""
        gate_activation, candidate_activation, memory_activation = self.activations
        input_sum, forget_sum, candidate, output_sum = gates(sums, 4)
        input_peephole, output_peephole, forget_peephole = (None,) * 3 if peephole is None else gates(peephole, 3)
        input_gate = gate_activation(
            self._clipped(input_sum if input_peephole is None else input_sum + input_peephole * c)
        )
        forget_gate = 1 - input_gate
        if not self.coupled:
            forget_gate = gate_activation(
                self._clipped(forget_sum if forget_peephole is None else forget_sum + forget_peephole * c)
            )
        memory = forget_gate * c + input_gate * candidate_activation(self._clipped(candidate))
        output_gate = gate_activation(
            self._clipped(output_sum if output_peephole is None else output_sum + output_peephole * memory)
        )
        return output_gate * memory_activation(memory), memory

    def _gru(self, x: Expr, weights: Expr, bias: Expr | None, h: Expr) -> tuple[Expr, ...]:
        gate_activation, candidate_activation = self.activations
        size = h.shape[-1]
        reset, update, candidate = gates(x, 3)
        both = affine(h, weights[:, : 2 * size], None if bias is None else bias[: 2 * size])
        reset_h, update_h = gates(both, 2)
        update_gate = gate_activation(self._clipped(update + update_h))
        reset_gate = gate_activation(self._clipped(reset + reset_h))
        last, last_bias = weights[:, 2 * size :], None if bias is None else bias[2 * size :]
        inner = (
            affine(reset_gate * h, last, last_bias)
            if self.reset_before_product
            else reset_gate * affine(h, last, last_bias)
        )
        new = candidate_activation(self._clipped(candidate + inner))
        return (new + update_gate * (h - new),)


def cells_of(
    type: str,
    direction: DirectionName,
    activations: Strings | None,
    alphas: Reals,
    betas: Reals,
    clip: float | None,
    *,
    coupled: bool = False,
    reset_before_product: bool = False,
) -> list[Cell]:
    """Return the cell of each direction of an LSTM, GRU or RNN; raise OperandError if an activation is unknown."""
    default_activations, directions = (
        _DEFAULT_ACTIVATIONS[type],
        {"forward": (False,), "reverse": (True,)}.get(direction, (False, True)),
    )
    names = default_activations * len(directions) if activations is None else activations
    count = len(default_activations)
    # some exporters write one list for both directions
    names = names * len(directions) if len(names) == count else names
    if len(names) != count * len(directions) or any(name not in _FORMULAS for name in names):
        raise OperandError(
            f"activations={names}",
            rule=f"{type}: there must be {count} activations for each direction, among {', '.join(_FORMULAS)}",
        )
    parameters = iter(alphas), iter(betas)
    formulas = tuple([_activation(name, *parameters) for name in names])
    return [
        Cell(
            type,
            backwards,
            names[i * count :][:count],
            formulas[i * count :][:count],
            clip,
            coupled,
            reset_before_product,
        )
        for i, backwards in enumerate(directions)
    ]


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Activation:
    """Return the activation ``name``, whose parameters are the next ones in the file's lists."""
    formula = _FORMULAS[name]
    defaults = _PARAMETERS.get(name)
    if defaults is None:
        return formula
    parameters = [float(next(source, default)) for source, default in zip((alphas, betas), defaults, strict=False)]
    return lambda x: formula(x, *parameters)
