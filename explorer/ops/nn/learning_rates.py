"""Learning-rate policies: the rate as an expression of the step number.

Optimizers and nets record the expression as part of the training step, and ``policy.at(100)`` evaluates it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from explorer.core.argument_checks import named_methods
from explorer.core.errors import DeclarationError, OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.hooks import hooks
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import as_integer
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.arithmetic import less, minimum, power, where
from explorer.ops.elementwise.rounding_and_bits import floor
from explorer.ops.elementwise.unary import cos
from explorer.ops.nn.hyperparameters import FIELDS, NOT_NEGATIVE, Range, check_numbers
from explorer.record.renamed import renamed_fields


@dataclass(frozen=True)
class LearningRate:
    """Base class of learning-rate policies; ``record`` returns the rate at step ``iteration``.

    The rate and ``iteration``, which is 0 at the first step, are float64 scalars. A subclass is a frozen dataclass of
    numbers:

    >>> ex.train.Step(0.1, size=10, gamma=0.5).at(25)
    0.025
    """

    ranges: ClassVar[Mapping[str, Range]] = {}
    """field name → range of the number"""

    def __post_init__(self) -> None:
        check_numbers(self)

    def record(self, iteration: Expr) -> Expr:
        """Record the rate at step ``iteration``."""
        raise DeclarationError(
            f"the learning-rate policy {type(self).__name__} without record",
            rule="a policy must define record(iteration)",
            fix="def record(self, iteration): return 0.1 / (1 + iteration)",
        )

    def at(self, iteration: int) -> float:
        """Compute the rate at step ``iteration``, counted from 0; raise OperandError if it is negative."""
        if as_integer(iteration, "at() of a learning-rate policy") < 0:
            raise OperandError(f"at({iteration})", rule="steps must be counted from 0", fix="policy.at(0)")
        return float(hooks.evaluate(self.record(tensor(float(iteration)))))


FIELDS["LearningRate"] = (LearningRate,), "a learning-rate policy", "ex.train.Fixed(0.1)"


@dataclass(frozen=True)
class Fixed(LearningRate):
    """The same rate at every step."""

    base: float

    def record(self, iteration: Expr) -> Expr:
        return full((), self.base, iteration.dtype)


@named_methods
@dataclass(frozen=True)
class Step(LearningRate):
    """base · gamma^⌊t / size⌋: after every ``size`` steps, the rate is multiplied by ``gamma`` (Caffe2: step)."""

    ranges: ClassVar[Mapping[str, Range]] = {"gamma": NOT_NEGATIVE}
    base: float
    size: int
    gamma: float = 0.1

    def record(self, iteration: Expr) -> Expr:
        return power(self.gamma, floor(iteration / self.size)) * self.base


@dataclass(frozen=True)
class Exp(LearningRate):
    """base · gamma^t (Caffe2: exp)."""

    ranges: ClassVar[Mapping[str, Range]] = {"gamma": NOT_NEGATIVE}
    base: float
    gamma: float

    def record(self, iteration: Expr) -> Expr:
        return power(self.gamma, iteration) * self.base


@dataclass(frozen=True)
class Inv(LearningRate):
    """base · (1 + gamma · t)^−power (Caffe2: inv)."""

    ranges: ClassVar[Mapping[str, Range]] = {"gamma": NOT_NEGATIVE}
    base: float
    gamma: float
    power: float

    def record(self, iteration: Expr) -> Expr:
        return power(iteration * self.gamma + 1.0, -self.power) * self.base


@named_methods
@dataclass(frozen=True)
class Poly(LearningRate):
    """base · (1 − t / steps)^power, and 0 for t ≥ ``steps`` (Caffe2: poly)."""

    base: float
    steps: int
    power: float = 1.0

    def record(self, iteration: Expr) -> Expr:
        rate = power(1.0 - minimum(iteration / self.steps, 1.0), self.power) * self.base
        # 0⁰ is 1, and 0 to a negative power is infinite.
        return rate if self.power > 0 else where(less(iteration, float(self.steps)), rate, 0.0)


@named_methods
@dataclass(frozen=True)
class Cosine(LearningRate):
    """end + (base − end) · (1 + cos(π · t / steps)) / 2, and ``end`` for t > ``steps``.

    (Loshchilov and Hutter, 2017.)
    """

    ranges: ClassVar[Mapping[str, Range]] = {"end": NOT_NEGATIVE}
    base: float
    steps: int
    end: float = 0.0

    def record(self, iteration: Expr) -> Expr:
        progress = minimum(iteration / self.steps, 1.0)
        return (cos(progress * math.pi) + 1.0) * ((self.base - self.end) / 2) + self.end


@named_methods
@dataclass(frozen=True)
class LinearWarmup(LearningRate):
    """The rate of ``then``, multiplied by start + (1 − start) · t / steps for t < ``steps`` (Caffe2: linearWarmup)."""

    ranges: ClassVar[Mapping[str, Range]] = {"start": NOT_NEGATIVE}
    then: LearningRate
    steps: int
    start: float = 0.0

    def record(self, iteration: Expr) -> Expr:
        progress = minimum(iteration / self.steps, 1.0)
        return self.then.record(iteration) * (progress * (1.0 - self.start) + self.start)


@named_methods
@renamed_fields(share="factor")
@dataclass(frozen=True)
class ConstantWarmup(LearningRate):
    """The rate of ``then``, multiplied by ``factor`` during the first ``steps`` steps (Caffe2: constantWarmup)."""

    ranges: ClassVar[Mapping[str, Range]] = {"factor": NOT_NEGATIVE}
    then: LearningRate
    steps: int
    factor: float = 0.1

    def record(self, iteration: Expr) -> Expr:
        return self.then.record(iteration) * where(less(iteration, float(self.steps)), self.factor, 1.0)
