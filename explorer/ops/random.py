"""Random numbers as pure functions of a seed and a counter, so a draw does not depend on the order of execution.

Generator: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011 (NumPy's Philox).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.ir.operation_examples import Example, integers
from explorer.core.registry import public
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType, as_dtype, as_shape
from explorer.ops.base import EXPENSIVE

__all__ = ["random_normal", "random_uniform", "random_uniform_at"]

_FLOAT32 = np.dtype("float32")


class RandomUniform(Operation):
    """Uniformly distributed numbers in [low, high), determined by a seed and a counter."""

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
    """Normally distributed numbers, determined by a seed and a counter."""

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


class RandomUniformAt(Operation):
    """Uniformly distributed numbers in [0, 1), determined by a seed and by counters, which are operands."""

    name = "random_uniform_at"
    shape: Shape
    seed: int = 0
    stream: int = 0
    dtype: np.dtype[Any] = _FLOAT32
    nondifferentiable = "integer counters have no derivative"
    examples = (Example(integers(), shape=(2, 3)), Example(integers(2), shape=(3,)))

    def infer(self, counter: TensorType) -> TensorType:
        if counter.dtype.kind not in "iu":
            raise self.refuse((counter,), "counters must be integers", "counter.astype('int64')")
        return TensorType((*counter.shape, *self.shape), self.dtype)

    def kernel(self, out: Array, counter: Array) -> Array:
        for index in np.ndindex(counter.shape):
            step = int(counter[index]) & (1 << 64) - 1
            # Each step of each stream has 2¹²⁸ separate numbers, like each counter of the operations above.
            draws = np.random.Philox(key=self.seed, counter=[0, 0, step, self.stream])
            # NumPy generates the numbers; for other devices they are copied.
            out[index] = np.asarray(np.random.Generator(draws).random(self.shape), like=out)
        return out

    def batch(self, size: int, batched: tuple[bool, ...], counter: Expr) -> Expr:
        return self(counter)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        assert isinstance(result, TensorType)
        return EXPENSIVE * result.size


def _generator(seed: int, counter: int) -> np.random.Generator:
    # The counter is the upper half of Philox's counter, so each draw has 2¹²⁸ separate numbers.
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, counter & (1 << 64) - 1, counter >> 64]))


@public
def random_uniform(
    shape: Any, low: float = 0.0, high: float = 1.0, *, seed: int = 0, counter: int = 0, dtype: Any = "float32"
) -> Expr:
    """Draw uniformly distributed numbers in [low, high); the same seed and counter give the same numbers.

    Use a different counter for each draw: two draws with the same seed and counter are the same value.

    >>> a, b = (ex.random_uniform((3,), seed=1, counter=n) for n in (0, 1))
    >>> bool((ex.evaluate(a) != ex.evaluate(b)).all())
    True
    """
    _check(seed, counter, low <= high, "low must not exceed high", f"random_uniform({shape}, {high}, {low})")
    return RandomUniform(as_shape(shape, "random_uniform"), float(low), float(high), seed, counter, as_dtype(dtype))()


@public
def random_normal(
    shape: Any, mean: float = 0.0, deviation: float = 1.0, *, seed: int = 0, counter: int = 0, dtype: Any = "float32"
) -> Expr:
    """Draw normally distributed numbers; the same seed and counter give the same numbers.

    Use a different counter for each draw: two draws with the same seed and counter are the same value.

    >>> ex.random_normal((2, 3), seed=1).shape
    (2, 3)
    """
    _check(seed, counter, deviation >= 0, "a standard deviation must not be negative", "deviation=1.0")
    return RandomNormal(
        as_shape(shape, "random_normal"), float(mean), float(deviation), seed, counter, as_dtype(dtype)
    )()


@public
def random_uniform_at(counter: Any, shape: Any, *, seed: int = 0, stream: int = 0, dtype: Any = "float32") -> Expr:
    """Draw uniformly distributed numbers in [0, 1) for each element of ``counter``: integers (…) → (…, *shape).

    The counter is an operand, such as the number of the training step. Different steps draw different numbers, and
    repeating a step draws the same numbers again. Use a different ``stream`` for each draw within a step.

    >>> first, again, second = (ex.evaluate(ex.random_uniform_at(step, (3,), seed=1)) for step in (0, 0, 1))
    >>> bool((first == again).all()), bool((first == second).any())
    (True, False)
    """
    sizes = as_shape(shape, "random_uniform_at")
    _check(seed, 0, True, "", "")
    if type(stream) is not int or not 0 <= stream < 1 << 64:
        raise OperandError(f"stream={stream!r}", rule="stream must be an integer from 0 to 2⁶⁴ − 1", fix="stream=0")
    value = np.asarray(counter) if isinstance(counter, int) else counter
    return RandomUniformAt(sizes, seed, stream, as_dtype(dtype))(*as_operands((value,)))


def _check(seed: Any, counter: Any, is_right: bool, rule: str, fix: str) -> None:
    for name, value in (("seed", seed), ("counter", counter)):
        if type(value) is not int or not 0 <= value < 1 << 128:
            raise OperandError(
                f"{name}={value!r}", rule=f"{name} must be an integer from 0 to 2¹²⁸ − 1", fix=f"{name}=0"
            )
    if not is_right:
        raise OperandError("a draw with invalid parameters", rule=rule, fix=fix)
