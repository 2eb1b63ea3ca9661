"""Cells of recurrent operators with what ONNX lets a file choose: activations, clip, peepholes, coupled gates.

A cell with the usual choices is one of `ops.control.recurrence.CELLS`, which has a kernel of its own; any other is
written out, gate by gate, from the formulas in the standard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.net.operators.context import OperatorContext
from explorer.ops.control.recurrence import affine, gates
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import relu, sigmoid, softplus, tanh
from explorer.ops.nn.activation import clip, elu, leaky_relu, softsign

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
