"""Random numbers: pure functions of a seed and a counter, so that equal draws are one value, whatever runs first.

Source of the generator: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011 (NumPy's Philox).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.examples import Example
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import Operation
from explorer.core.registry import public
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType, as_dtype, as_shape
from explorer.ops.base import EXPENSIVE

_FLOAT32 = np.dtype("float32")


class RandomUniform(Operation):
    """Numbers drawn evenly from ``low`` (included) to ``high`` (excluded), by a seed and a counter."""

    name = "random_uniform"
    shape: Shape
    low: float = 0.0
    high: float = 1.0
    seed: int = 0
    counter: int = 0
    dtype: np.dtype[Any] = _FLOAT32
    nondifferentiable = "a draw has no operands"
    unbatchable = "a draw has no operands to batch"
    examples = (Example(shape=(2, 3)),)

    def infer(self) -> TensorType:
        return TensorType(self.shape, self.dtype)

    def kernel(self, out: Array) -> Array:
        out[...] = _generator(self.seed, self.counter).uniform(self.low, self.high, self.shape)
        return out

    def flops(self, result: AnyType, *types: TensorType) -> int:
        assert isinstance(result, TensorType)
        return EXPENSIVE * result.size


class RandomNormal(Operation):
    """Numbers of a normal distribution, by a seed and a counter."""

    name = "random_normal"
    shape: Shape
    mean: float = 0.0
    deviation: float = 1.0
    seed: int = 0
    counter: int = 0
    dtype: np.dtype[Any] = _FLOAT32
    nondifferentiable = "a draw has no operands"
    unbatchable = "a draw has no operands to batch"
    examples = (Example(shape=(2, 3)),)

    def infer(self) -> TensorType:
        return TensorType(self.shape, self.dtype)

    def kernel(self, out: Array) -> Array:
        out[...] = _generator(self.seed, self.counter).normal(self.mean, self.deviation, self.shape)
        return out

    def flops(self, result: AnyType, *types: TensorType) -> int:
        assert isinstance(result, TensorType)
        return 2 * EXPENSIVE * result.size


def _generator(seed: int, counter: int) -> np.random.Generator:
    # The counter's upper half: each draw has 2¹²⁸ numbers to itself.
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, counter & (1 << 64) - 1, counter >> 64]))


@public
def random_uniform(
    shape: Any, low: float = 0.0, high: float = 1.0, *, seed: int = 0, counter: int = 0, dtype: Any = "float32"
) -> Expr:
    """Draw numbers evenly from ``low`` (included) to ``high`` (excluded): the same for the same seed and counter.

    Give each draw a counter of its own: two draws of one seed and counter are one value.

    >>> a, b = (ex.random_uniform((3,), seed=1, counter=n) for n in (0, 1))
    >>> bool((ex.evaluate(a) != ex.evaluate(b)).all())
    True
    """
    _check(seed, counter, low <= high, "low must be at most high", f"random_uniform({shape}, {high}, {low})")
    return RandomUniform(as_shape(shape, "random_uniform"), float(low), float(high), seed, counter, as_dtype(dtype))()


@public
def random_normal(
    shape: Any, mean: float = 0.0, deviation: float = 1.0, *, seed: int = 0, counter: int = 0, dtype: Any = "float32"
) -> Expr:
    """Draw numbers of a normal distribution: the same for the same seed and counter.

    Give each draw a counter of its own: two draws of one seed and counter are one value.

    >>> ex.random_normal((2, 3), seed=1).shape
    (2, 3)
    """
    _check(seed, counter, deviation >= 0, "a standard deviation must not be negative", "deviation=1.0")
    return RandomNormal(
        as_shape(shape, "random_normal"), float(mean), float(deviation), seed, counter, as_dtype(dtype)
    )()


def _check(seed: Any, counter: Any, is_right: bool, rule: str, fix: str) -> None:
    for name, value in (("seed", seed), ("counter", counter)):
        if type(value) is not int or not 0 <= value < 1 << 128:
            raise OperandError(
                f"{name}={value!r}", rule=f"{name} must be a whole number from 0 to 2¹²⁸ − 1", fix=f"{name}=0"
            )
    if not is_right:
        raise OperandError("a draw of no distribution", rule=rule, fix=fix)
