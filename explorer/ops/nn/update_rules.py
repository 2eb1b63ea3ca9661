"""Update rules: new values of parameters as expressions of their gradients.

Optimizers (explorer/train) and nets (explorer/net) share these rules. The fields of a rule are numbers. A parameter's
state, such as its moments, is passed as an argument, and the new state is returned. The learning rate is positive,
because updates are subtracted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr
from explorer.ops.elementwise.arithmetic import greater, maximum, power, where
from explorer.ops.elementwise.unary import absolute, sign, sqrt
from explorer.ops.nn.hyperparameters import BELOW_ONE, FRACTION, NOT_NEGATIVE, Range, check_numbers

State = Mapping[str, Expr]


@dataclass(frozen=True)
class UpdateRule:
    """Base class of update rules; ``record`` returns a parameter's new value and new state.

    ``parameter``, ``gradient`` and each entry of ``state`` have the same type. The step length is a scalar of their
    dtype, which the method ``length`` computes once for all parameters. A subclass is a frozen dataclass of numbers.
    """

    state: ClassVar[tuple[str, ...]] = ()
    """names of a parameter's state arrays, which are initially zeros"""
    ranges: ClassVar[Mapping[str, Range]] = {}
    """field name → range of the number"""

    def __post_init__(self) -> None:
        check_numbers(self)

    def length(self, rate: Expr, iteration: Expr) -> Expr:
        """Record the step length from the learning rate ``rate`` and the number of previous steps ``iteration``.

        The result and both arguments are float64 scalars.
        """
        return rate

    def record(self, parameter: Expr, gradient: Expr, length: Expr, state: State) -> tuple[Expr, dict[str, Expr]]:
        """Record the new value of ``parameter``, and its new state by name."""
        raise DeclarationError(
            f"the update rule {type(self).__name__} without record",
            rule="a rule must define record(parameter, gradient, length, state)",
            fix="def record(self, parameter, gradient, length, state): return parameter - length * gradient, {}",
        )


@dataclass(frozen=True)
class SGD(UpdateRule):
    """Gradient descent: p ← p − lr·g."""

    def record(self, parameter: Expr, gradient: Expr, length: Expr, state: State) -> tuple[Expr, dict[str, Expr]]:
        return parameter - length * gradient, {}


@dataclass(frozen=True)
class Momentum(UpdateRule):
    """Gradient descent with momentum: m ← μ·m + lr·g, p ← p − m.

    If ``nesterov`` is true, p ← p − ((1 + μ)·m′ − μ·m), where m′ is the new m.
    """

    state = ("momentum",)
    ranges: ClassVar[Mapping[str, Range]] = {"momentum": NOT_NEGATIVE}
    momentum: float = 0.9
    nesterov: bool = False

    def record(self, parameter: Expr, gradient: Expr, length: Expr, state: State) -> tuple[Expr, dict[str, Expr]]:
        old = state["momentum"]
        new = old * self.momentum + length * gradient
        step = new * (1 + self.momentum) - old * self.momentum if self.nesterov else new
        return parameter - step, {"momentum": new}


@dataclass(frozen=True)
class Adagrad(UpdateRule):
    """Adagrad: h ← decay·h + g², p ← p − lr·g / (√h + ε)."""

    state = ("squares",)
    ranges: ClassVar[Mapping[str, Range]] = {"decay": NOT_NEGATIVE, "epsilon": NOT_NEGATIVE}
    decay: float = 1.0
    epsilon: float = 1e-5

    def record(self, parameter: Expr, gradient: Expr, length: Expr, state: State) -> tuple[Expr, dict[str, Expr]]:
        squares = state["squares"] * self.decay + gradient * gradient
        return parameter - length * gradient / (sqrt(squares) + self.epsilon), {"squares": squares}


@dataclass(frozen=True)
class Adam(UpdateRule):
    """Adam: m ← β₁·m + (1 − β₁)·g, v ← β₂·v + (1 − β₂)·g², p ← p − lr·√(1 − β₂ᵗ) / (1 − β₁ᵗ) · m / (√v + ε).

    t is 1 at the first step. As in Caffe2, ε is added to the uncorrected √v; PyTorch adds it to the corrected √v.
    """

    state: ClassVar[tuple[str, ...]] = ("mean", "squares")
    # β must be below 1, because the corrections divide by 1 − βᵗ.
    ranges: ClassVar[Mapping[str, Range]] = {"beta1": BELOW_ONE, "beta2": BELOW_ONE, "epsilon": NOT_NEGATIVE}
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def length(self, rate: Expr, iteration: Expr) -> Expr:
        """Record the learning rate multiplied by both bias corrections, in float64.

        In float32, 1 − 0.999ᵗ would lose four digits.
        """
        t = iteration + 1.0
        return rate * sqrt(1.0 - power(self.beta2, t)) / (1.0 - power(self.beta1, t))

    def record(self, parameter: Expr, gradient: Expr, length: Expr, state: State) -> tuple[Expr, dict[str, Expr]]:
        moments = self.moments(gradient, state)
        return self.updated(parameter, length, moments["mean"], moments["squares"]), moments

    def moments(self, gradient: Expr, state: State) -> dict[str, Expr]:
        """Record the new m and v; return them by name."""
        mean = state["mean"] * self.beta1 + gradient * (1 - self.beta1)
        squares = state["squares"] * self.beta2 + gradient * gradient * (1 - self.beta2)
        return {"mean": mean, "squares": squares}

    def updated(self, parameter: Expr, length: Expr, mean: Expr, squares: Expr) -> Expr:
        """Record the new value of ``parameter`` from ``mean`` (m) and ``squares`` (v, or its maximum)."""
        return parameter - length * mean / (sqrt(squares) + self.epsilon)


@dataclass(frozen=True)
class AMSGrad(Adam):
    """AMSGrad: Adam with v replaced by the maximum of v over all steps so far (Reddi et al., 2018)."""

    state = ("mean", "squares", "largest")

    def record(self, parameter: Expr, gradient: Expr, length: Expr, state: State) -> tuple[Expr, dict[str, Expr]]:
        moments = self.moments(gradient, state)
        largest = maximum(state["largest"], moments["squares"])
        return self.updated(parameter, length, moments["mean"], largest), {**moments, "largest": largest}


@dataclass(frozen=True)
class RMSProp(UpdateRule):
    """RMSProp: v ← v + (1 − decay)·(g² − v), m ← μ·m + lr·g / √(v + ε), p ← p − m."""

    state = ("squares", "momentum")
    # If decay were above 1, v could become negative, and its square root NaN.
    ranges: ClassVar[Mapping[str, Range]] = {"decay": FRACTION, "momentum": NOT_NEGATIVE, "epsilon": NOT_NEGATIVE}
    decay: float = 0.9
    momentum: float = 0.0
    epsilon: float = 1e-5

    def record(self, parameter: Expr, gradient: Expr, length: Expr, state: State) -> tuple[Expr, dict[str, Expr]]:
        squares = state["squares"] + (gradient * gradient - state["squares"]) * (1 - self.decay)
        scaled = length * gradient / sqrt(squares + self.epsilon)
        momentum = state["momentum"] * self.momentum + scaled
        return parameter - momentum, {"squares": squares, "momentum": momentum}


@dataclass(frozen=True)
class Ftrl(UpdateRule):
    """FTRL-proximal: n′ ← n + g², z ← z + g − (√n′ − √n) / lr · p, p ← (l1·sign z − z) / ((β + √n′) / lr + l2).

    p is 0 if |z| ≤ l1. If the rate is 0, nothing changes. (Source: McMahan et al., Ad Click Prediction, 2013; lr is
    called α there.)
    """

    state = ("squares", "linear")
    ranges: ClassVar[Mapping[str, Range]] = {"beta": NOT_NEGATIVE, "l1": NOT_NEGATIVE, "l2": NOT_NEGATIVE}
    beta: float = 1.0
    l1: float = 0.001
    l2: float = 0.001

    def record(self, parameter: Expr, gradient: Expr, length: Expr, state: State) -> tuple[Expr, dict[str, Expr]]:
        inverse = 1.0 / length
        squares = state["squares"] + gradient * gradient
        root = sqrt(squares)
        linear = state["linear"] + gradient - (root - sqrt(state["squares"])) * inverse * parameter
        shrunk = (sign(linear) * self.l1 - linear) / ((root + self.beta) * inverse + self.l2)
        new = where(greater(absolute(linear), self.l1), shrunk, 0.0)
        # A warm-up begins with the rate 0; keep the old values instead of dividing by it.
        moves = greater(length, 0.0)
        kept = {"squares": squares, "linear": linear}
        return where(moves, new, parameter), {name: where(moves, kept[name], state[name]) for name in kept}
