"""Directions of recurrent operators: each runs over the steps from a first state, and their results are stacked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope
from explorer.formats.common.operator_checks import with_shape
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import is_known, optional, value_of
from explorer.ops.control.recurrence import affine, gates
from explorer.ops.creation.constants import zeros
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import relu, sigmoid, softplus, tanh
from explorer.ops.manipulation.concat import stack
from explorer.ops.manipulation.reshape import reshape
from explorer.ops.nn.activation import clip, elu, leaky_relu, softsign

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


class Operands(NamedTuple):
    """Operands of a recurrent operator that are not its weights."""

    x: Expr
    """(steps, N, features)"""
    lengths: Expr | None
    """(N,) of the sequences; None where all have all steps"""
    starts: tuple[Expr | None, ...]
    """first states, (directions, N, hidden); None for zeros"""
    peepholes: Expr | None
    hidden: int


class Direction(NamedTuple):
    """Direction of a recurrent operator: its place, order, cell and first states; weights are not here."""

    number: int
    backwards: bool
    options: CellOptions
    peephole: Expr | None
    start: tuple[Expr, ...]
    """first states, (N, hidden)"""


def directions_of(op: OperatorContext) -> tuple[bool, ...]:
    """Return for each direction of an operator whether it begins with the last step."""
    return _DIRECTIONS[op.word("direction", "forward", tuple(_DIRECTIONS))]


def each_direction(
    op: OperatorContext,
    cell: str,
    operands: Operands,
    directions: Sequence[bool],
    steps: Callable[[Direction], tuple[Expr, tuple[Expr, ...]]],
    batch_first: bool = False,
) -> list[Expr]:
    """Return the sequence (steps, directions, N, hidden) and the last states (directions, N, hidden).

    ``steps`` records one direction: its sequence, and its last states; ``batch_first`` says that N is the first axis of
    first states.
    """
    x, lengths, starts, peepholes, hidden = operands
    options = options_of(op, cell, len(directions))
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
            sequence, state = steps(Direction(number, backwards, options[number], peephole, start))
            state = _of_sequences(x, lengths, state)
        sequences.append(sequence)
        last.append(state)
    return [stack(sequences, 1), *[stack([state[i] for state in last]) for i in range(len(starts))]]


def lengths_of(op: OperatorContext, name: str, x: Expr) -> Expr | None:
    """Return the lengths of the sequences; None where all have all steps."""
    lengths = optional(op, name)
    if lengths is None:
        return None
    with_shape("sequence_lens", lengths, (x.shape[1],))
    if is_known(lengths) and (value_of(lengths) == x.shape[0]).all():
        return None
    return lengths


def _of_sequences(x: Expr, lengths: Expr | None, state: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Return the last states, which are zeros for a sequence without steps, as ONNX Runtime has it."""
    if not x.shape[0]:
        return tuple([zeros(each.shape, each.dtype) for each in state])
    if lengths is None or (is_known(lengths) and (value_of(lengths) > 0).all()):
        return state
    return tuple([where(reshape(lengths > 0, (-1, 1)), each, 0) for each in state])


Activation: TypeAlias = Callable[[Expr], Expr]
_USUAL = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
_PARAMETERS = {
    "Affine": (1.0, 0.0),
    "LeakyRelu": (0.01,),
    "ThresholdedRelu": (1.0,),
    "ScaledTanh": (1.0, 1.0),
    "HardSigmoid": (0.2, 0.5),
    "Elu": (1.0,),
}
"""activation → what alpha and beta are where the file does not say"""
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
    "HardSigmoid": lambda x, alpha, beta: clip(x * alpha + beta, 0, 1),
    "Elu": elu,
}


@dataclass(frozen=True, slots=True)
class CellOptions:
    """Choices of a file for the cell of one direction."""

    type: str
    names: tuple[str, ...]
    activations: tuple[Activation, ...]
    clip: float | None
    coupled: bool
    """the forget gate is 1 − the entry gate"""
    early: bool
    """the reset gate acts on the state in front of the product"""

    @property
    def known(self) -> str:
        """Name of the cell in ``ops.control.recurrence.CELLS``; "" for one with choices that these do not have."""
        if self.clip is not None or self.coupled:
            return ""
        if self.type == "RNN":
            return {"Tanh": "rnn", "Relu": "relu rnn"}.get(self.names[0], "")
        if self.names != _USUAL[self.type]:
            return ""
        return "lstm" if self.type == "LSTM" else "early gru" if self.early else "gru"

    def step(self, x: Expr, weights: Expr, bias: Expr | None, peephole: Expr | None, *state: Expr) -> tuple[Expr, ...]:
        """Compute the next state; ``x`` is the input's part of the gates, in torch's order, as those of weights."""
        if self.type == "LSTM":
            return self.lstm(affine(state[0], weights, bias) + x, peephole, state[1])
        (h,) = state
        if self.type == "RNN":
            return (self.activations[0](self._clipped(affine(h, weights, bias) + x)),)
        return self._gru(x, weights, bias, h)

    def _clipped(self, x: Expr) -> Expr:
        return x if self.clip is None else clip(x, -self.clip, self.clip)

    def lstm(self, sums: Expr, peephole: Expr | None, c: Expr) -> tuple[Expr, Expr]:
        """Compute the next h and c of a long short-term memory from the sums of its gates, in torch's order."""
        of_gates, of_candidate, of_memory = self.activations
        entry, forget, candidate, leave = gates(sums, 4)
        to_entry, to_leave, to_forget = (None,) * 3 if peephole is None else gates(peephole, 3)
        entered = of_gates(self._clipped(entry if to_entry is None else entry + to_entry * c))
        kept = 1 - entered
        if not self.coupled:
            kept = of_gates(self._clipped(forget if to_forget is None else forget + to_forget * c))
        memory = kept * c + entered * of_candidate(self._clipped(candidate))
        left = of_gates(self._clipped(leave if to_leave is None else leave + to_leave * memory))
        return left * of_memory(memory), memory

    def _gru(self, x: Expr, weights: Expr, bias: Expr | None, h: Expr) -> tuple[Expr, ...]:
        of_gates, of_candidate = self.activations
        size = h.shape[-1]
        reset, update, candidate = gates(x, 3)
        both = affine(h, weights[:, : 2 * size], None if bias is None else bias[: 2 * size])
        reset_h, update_h = gates(both, 2)
        kept = of_gates(self._clipped(update + update_h))
        opened = of_gates(self._clipped(reset + reset_h))
        last, last_bias = weights[:, 2 * size :], None if bias is None else bias[2 * size :]
        inner = affine(opened * h, last, last_bias) if self.early else opened * affine(h, last, last_bias)
        fresh = of_candidate(self._clipped(candidate + inner))
        return (fresh + kept * (h - fresh),)


def options_of(op: OperatorContext, type: str, directions: int) -> list[CellOptions]:
    """Return the choices of a file for each direction of a cell of this type, ``LSTM``, ``GRU`` or ``RNN``.

    Raises OperandError for an activation that ONNX has not.
    """
    usual = _USUAL[type]
    names = op.argument("activations", usual * directions)
    names = names if isinstance(names, tuple) else (names,)
    # one list for both directions is what some exporters write
    names = names * directions if len(names) == len(usual) else names
    unknown = [name for name in names if name not in _FORMULAS]
    if unknown or len(names) != len(usual) * directions:
        raise OperandError(
            f"activations={names}",
            rule=f"{type}: there must be {len(usual)} activations for each direction, of {', '.join(_FORMULAS)}",
        )
    alphas, betas = (iter(_numbers(op, name)) for name in ("activation_alpha", "activation_beta"))
    activations = [_activation(name, alphas, betas) for name in names]
    limit = op.number("clip") if op.has("clip") else None
    coupled = type == "LSTM" and bool(op.integer("input_forget", 0))
    early = type == "GRU" and not op.integer("linear_before_reset", 0)
    count = len(usual)
    return [
        CellOptions(
            type,
            tuple(names[place : place + count]),
            tuple(activations[place : place + count]),
            limit,
            coupled,
            early,
        )
        for place in range(0, len(names), count)
    ]


def _numbers(op: OperatorContext, name: str) -> tuple[float, ...]:
    values = op.argument(name, ())
    return values if isinstance(values, tuple) else (values,)


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Activation:
    """Return an activation; those with parameters take the next ones of the file's, in their order."""
    formula = _FORMULAS[name]
    defaults = _PARAMETERS.get(name)
    if defaults is None:
        return formula
    parameters = [float(next(source, default)) for source, default in zip((alphas, betas), defaults, strict=False)]
    return lambda x: formula(x, *parameters)
