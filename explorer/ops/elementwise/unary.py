"""Elementwise functions of one operand.

Most operations are NumPy ufuncs. The gradients of tanh, sigmoid and exp are computed from the result, so the operand
need not be kept for the backward pass.

Outside their domain (√−1, log 0, 1 / 0), functions return NaN or ±∞ as in NumPy, but there is no warning, because later
nodes may handle these values. Real functions of integers return the same floating dtype as in NumPy. Functions defined
only for real numbers reject complex operands (``float_dtype``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.operation_examples import Example, integers, real
from explorer.core.types.custom_dtypes import accumulator_dtype
from explorer.core.types.tensor_type import Array
from explorer.ops.base import EXPENSIVE, Elementwise, Ufunc, float_dtype
from explorer.ops.elementwise.arithmetic import where

__all__ = [
    "absolute",
    "cos",
    "exp",
    "expm1",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1mexp",
    "log1p",
    "negative",
    "positive",
    "reciprocal",
    "relu",
    "sigmoid",
    "sigmoid_gradient",
    "sign",
    "signbit",
    "sin",
    "softplus",
    "sqrt",
    "square",
    "tan",
    "tanh",
]

ANY = (Example(real(2, 3)), Example(real()), Example(real(2, 1, 3)))
POSITIVE = (Example(real(2, 3, low=0.2, high=3.0)),)


class Negative(Ufunc):
    """−x."""

    ufunc, linear, involution, examples, c = np.negative, True, True, ANY, "-{0}"

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (-g,)


class Positive(Ufunc):
    """+x; the elements are unchanged."""

    ufunc, linear, monotone, idempotent, examples, c = np.positive, True, True, True, ANY, "{0}"

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g,)


class Absolute(Ufunc):
    """|x|; the gradient at 0 is 0."""

    ufunc, range, idempotent, is_even, c = np.absolute, "nonnegative", True, True, "abs_{t}({0})"
    examples = (Example(real(2, 3, low=0.1)), *POSITIVE)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * sign(x),)


class Sign(Ufunc):
    """−1, 0 or 1."""

    ufunc, monotone, idempotent, examples = np.sign, True, True, ANY
    numpy_calls = 1.8
    c = "{0} > 0 ? 1 : {0} < 0 ? -1 : {0} == 0 ? 0 : {0}"  # the sign of NaN is NaN
    defined_everywhere = True
    nondifferentiable = "sign is constant wherever it has a derivative"


class Square(Ufunc):
    """x²; integers wrap around. The gradient is 2 · g · x."""

    ufunc, range, is_even, examples, c = np.square, "nonnegative", True, ANY, "{0} * {0}"

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * (2 * x),)


class Sqrt(Ufunc):
    """√x; NaN for x < 0. The gradient g / (2 · y) is ∞ at 0."""

    ufunc, range, monotone, weight, examples, c = np.sqrt, "nonnegative", True, 4, POSITIVE, "sqrt_{t}({0})"
    numpy_calls = 1.4

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g / (2 * y),)


class Reciprocal(Ufunc):
    """1 / x; ±∞ at ±0, and truncated for integers. The gradient is −g · y²."""

    ufunc, involution, weight, examples, c = np.reciprocal, True, 4, POSITIVE, "1 / {0}"
    numpy_calls = 1.3

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (-g * square(y),)


class Exp(Ufunc):
    """eˣ; ∞ beyond the dtype's range, without an error. The gradient is g · y."""

    ufunc, range, monotone, weight, examples, c = np.exp, "positive", True, EXPENSIVE, ANY, "exp_{t}({0})"
    defined_everywhere = True

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * y,)


class Expm1(Ufunc):
    """eˣ − 1, accurate near 0."""

    ufunc, monotone, weight, examples = np.expm1, True, EXPENSIVE, ANY
    c = "expm1_{t}({0})"
    defined_everywhere = True

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * exp(x),)


class Log(Ufunc):
    """The natural logarithm; −∞ for x = 0, NaN for x < 0. The gradient is g / x."""

    ufunc, monotone, weight, examples, c = np.log, True, EXPENSIVE, POSITIVE, "log_{t}({0})"

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g / x,)


class Log1p(Ufunc):
    """log(1 + x), accurate near 0."""

    ufunc, monotone, weight, examples = np.log1p, True, EXPENSIVE, POSITIVE
    c = "log1p_{t}({0})"

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g / (1 + x),)


class Log1mexp(Elementwise):
    """log(1 − eˣ) for x < 0, accurate near 0 and −∞ (Mächler, Accurately Computing log(1 − exp(−|a|)), 2012)."""

    weight, examples = 2 * EXPENSIVE, (Example(real(2, 3, low=-3, high=-0.1)),)

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return float_dtype(*dtypes)

    def kernel(self, out: Array, x: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):  # −∞ at 0, NaN above it
            near = np.log(-np.expm1(x, dtype=out.dtype))
            np.copyto(out, np.where(x > -math.log(2), near, np.log1p(-np.exp(x, dtype=out.dtype))))
        return out

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * -(exp(x) / (0.0 - expm1(x))),)


class Sin(Ufunc):
    """The sine of an angle in radians."""

    ufunc, weight, examples = np.sin, EXPENSIVE, ANY
    c = "sin_{t}({0})"

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * cos(x),)


class Cos(Ufunc):
    """The cosine of an angle in radians."""

    ufunc, is_even, weight, examples = np.cos, True, EXPENSIVE, ANY
    c = "cos_{t}({0})"

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (-g * sin(x),)


class Tan(Ufunc):
    """The tangent of an angle in radians."""

    ufunc, weight, examples = np.tan, EXPENSIVE, ANY
    c = "tan_{t}({0})"

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * (1 + square(y)),)


class Tanh(Ufunc):
    """Hyperbolic tangent. The gradient is g · (1 − y²)."""

    ufunc, monotone, weight, examples, c = np.tanh, True, EXPENSIVE, ANY, "tanh_{t}({0})"
    defined_everywhere = True

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * (1 - square(y)),)


class Sigmoid(Elementwise):
    """Logistic sigmoid 1 / (1 + e⁻ˣ), without overflow. The gradient is g · y · (1 − y)."""

    reuses_operand = True
    range, monotone, weight, examples, c = "unit", True, EXPENSIVE, ANY, "sigmoid_{t}({0})"
    defined_everywhere = True

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return float_dtype(*dtypes)

    def kernel(self, out: Array, x: Array) -> Array:
        wide = accumulator_dtype(out.dtype)  # in float16, e⁻ˣ can overflow although the sigmoid is not 0
        y = out if wide == out.dtype else np.empty_like(out, wide)
        with np.errstate(over="ignore"):  # the result for e⁻ˣ = ∞ is 0, which is correct
            np.exp(np.negative(x, out=y, dtype=wide), out=y)
        np.reciprocal(np.add(y, 1, out=y), out=y)
        if y is not out:
            np.copyto(out, y, casting="unsafe")
        return out

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (sigmoid_gradient(g, y),)


class SigmoidGradient(Elementwise):
    """Gradient of a sigmoid with output y: g·y·(1 − y)."""

    reuses_operand = True
    weight, examples = 3, (Example(real(2, 3), real(2, 3, low=0.1, high=0.9)),)
    c = "{0} * {1} * (1 - {1})"

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return float_dtype(np.result_type(*dtypes))

    def kernel(self, out: Array, g: Array, y: Array) -> Array:
        # compute the temporary arrays first, because out may share memory with g or y
        np.multiply(g * y, 1 - y, out=out)
        return out

    def gradient(self, upstream: Expr, result: Expr, g: Expr, y: Expr) -> tuple[Expr, Expr]:
        return upstream * y * (1 - y), upstream * g * (1 - 2 * y)


_LIMITS = {dtype.char: (dtype.type(0), dtype.type(np.inf)) for dtype in (np.dtype(np.float32), np.dtype(np.float64))}


class Relu(Elementwise):
    """max(x, 0): negative elements become 0; NaN and −0.0 are kept. The gradient at 0 is 0."""

    reuses_operand = True
    range, monotone, idempotent, examples = "nonnegative", True, True, (Example(real(2, 3, low=0.1)), *POSITIVE)
    numpy_calls, c = 1.05, "{0} < 0 ? 0 : {0}"
    defined_everywhere = True

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        if dtypes[0].kind in "bc":
            raise self.refuse_dtypes(dtypes, "elements must be real numbers")
        return dtypes[0]

    def kernel(self, out: Array, x: Array) -> Array:
        # for these dtypes NumPy's vectorized maximum loses the sign of −0.0 and is slower than clip
        limits = _LIMITS.get(x.dtype.char)
        return np.maximum(x, 0, out=out) if limits is None else x.clip(*limits, out=out)

    def bind_kernel(self, out: Array, x: Array) -> Callable[[], Any]:
        limits = _LIMITS.get(x.dtype.char)
        return (
            functools.partial(np.maximum, x, 0, out=out) if limits is None else functools.partial(x.clip, *limits, out)
        )

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (where(y > 0, g, 0),)


class Softplus(Elementwise):
    """log(1 + eˣ), without overflow."""

    reuses_operand = True
    range, monotone, weight, examples = "nonnegative", True, 2 * EXPENSIVE, ANY
    c = "maximum_{t}({0}, 0) + log1p_{t}(exp_{t}(-abs_{t}({0})))"
    defined_everywhere = True

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return float_dtype(*dtypes)

    def kernel(self, out: Array, x: Array) -> Array:
        # max(x, 0) + log(1 + e^−|x|) is faster than NumPy's logaddexp, which is not vectorized. For half precision,
        # only the final result is rounded.
        rest = np.absolute(x, dtype=np.result_type(out.dtype, np.float32))
        for function in (np.negative, np.exp, np.log1p):
            rest = function(rest, out=rest if rest.ndim else None)
        return np.add(rest, np.maximum(x, 0), out=out, casting="same_kind")

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * sigmoid(x),)


negative, positive, absolute, sign, square, sqrt = Negative(), Positive(), Absolute(), Sign(), Square(), Sqrt()
reciprocal, exp, expm1, log, log1p, log1mexp = Reciprocal(), Exp(), Expm1(), Log(), Log1p(), Log1mexp()
sin, cos, tan, tanh, sigmoid, relu, softplus = Sin(), Cos(), Tan(), Tanh(), Sigmoid(), Relu(), Softplus()
sigmoid_gradient = SigmoidGradient()


_EXAMPLES = (Example(real(2, 3)), Example(real()), Example(integers(3)))


class Predicate(Ufunc, abstract=True):
    """Base class of elementwise tests; their results are booleans."""

    nondifferentiable = "booleans have no derivative"
    reuses_operand = False
    examples: ClassVar[tuple[Example, ...]] = _EXAMPLES


class IsNan(Predicate):
    """Whether an element is NaN."""

    name, ufunc = "isnan", np.isnan
    c = "{0} != {0}"


class IsInf(Predicate):
    """Whether an element is infinite."""

    name, ufunc = "isinf", np.isinf
    c = "abs_{t}({0}) == INFINITY"


class IsFinite(Predicate):
    """Whether an element is a finite number."""

    name, ufunc = "isfinite", np.isfinite
    c = "abs_{t}({0}) < INFINITY"


class SignBit(Predicate):
    """Whether an element's sign bit is set, as for negative numbers and −0.0."""

    name, ufunc = "signbit", np.signbit
    examples = (Example(real(2, 3)), Example(real()))


isnan, isinf, isfinite, signbit = IsNan(), IsInf(), IsFinite(), SignBit()
