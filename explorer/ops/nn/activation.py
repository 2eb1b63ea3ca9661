"""Activation functions except relu, sigmoid and tanh.

Frequently used activations are operations with their own kernels. The others are compositions, which the plan fuses
into one kernel and which need no gradient rule.

At a kink (relu at 0, clip at its limits, the hard sigmoid at ±3) the gradient is a one-sided derivative; whether the
code compares with ``<`` or ``≤`` determines its side. All activations propagate NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import WEAK, Expr, as_operands
from explorer.core.ir.operation_examples import Example, real
from explorer.core.registry import public
from explorer.core.types.custom_dtypes import accumulator_dtype, is_floating
from explorer.core.types.tensor_type import Array, Number, normalize_axis
from explorer.ops.base import EXPENSIVE, Elementwise, c_literal, float_dtype, reshape
from explorer.ops.elementwise.arithmetic import maximum, minimum, where
from explorer.ops.elementwise.erf import erf
from explorer.ops.elementwise.unary import absolute, exp, expm1, sigmoid, softplus, square, tanh
from explorer.ops.manipulation.slicing import part_of

__all__ = [
    "celu",
    "clip",
    "elu",
    "gelu",
    "glu",
    "hardsigmoid",
    "hardswish",
    "leaky_relu",
    "log_sigmoid",
    "mish",
    "prelu",
    "relu6",
    "selu",
    "silu",
    "softsign",
]

_SHAPES = (Example(real(2, 3, low=-2.0, high=2.0)), Example(real()), Example(real(3, dtype="float32")))
_WIDE = (
    Example(real(2, 3, low=-2.9, high=-0.1)),
    Example(real(2, 3, low=0.1, high=2.9)),
    Example(real(3, low=3.1, high=9.0)),
)


class Clip(Elementwise):
    """Elements limited to low … high, where one limit may be None; NaN stays NaN.

    The gradient is g between the limits and 0 outside them. At a limit it is g, or 0 if ``is_open`` is true.
    """

    low: Number | None
    high: Number | None
    is_open: bool = False
    reuses_operand = True
    monotone, idempotent = True, True
    defined_everywhere = True
    examples = (
        Example(real(2, 3, low=0.1, high=0.7), low=0.2, high=0.5),
        Example(real(3), low=None, high=2.0),
        Example(real(3), low=-2.0, high=None),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low is None and self.high is None:
            raise OperandError(
                "clip without low and high",
                rule="clip must have a low or a high limit",
                fix="ex.clip(x, 0, 1), or ex.clip(x, low=0)",
            )

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        if is_floating(dtypes[0]) and dtypes[0].kind != "f":  # keep bfloat16, which limits do not widen
            return dtypes[0]
        return np.result_type(*dtypes, *[limit for limit in (self.low, self.high) if limit is not None])

    def kernel(self, out: Array, x: Array) -> Array:
        limits: Any = self.low, self.high
        return x.clip(*limits, out=out)

    def c_expression(self, suffix: str, *operands: str) -> str:
        (x,) = operands
        if self.low is not None:
            x = f"maximum_{suffix}({x}, {c_literal(self.low, suffix)})"
        return x if self.high is None else f"minimum_{suffix}({x}, {c_literal(self.high, suffix)})"

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        if self.low is not None:
            g = where(x > self.low if self.is_open else x >= self.low, g, 0)
        if self.high is not None:
            g = where(x < self.high if self.is_open else x <= self.high, g, 0)
        return (g,)

    @property
    def label(self) -> str:
        return "relu6" if (self.low, self.high) == (0, 6) else "clip"


class Silu(Elementwise):
    """x · σ(x), also called swish."""

    reuses_operand = True
    weight, examples, c = EXPENSIVE + 1, _SHAPES, "{0} * sigmoid_{t}({0})"

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return float_dtype(*dtypes)

    def kernel(self, out: Array, x: Array) -> Array:
        with np.errstate(over="ignore"):  # the result for e⁻ˣ = ∞ is 0, which is correct
            powers = np.exp(np.negative(x, dtype=accumulator_dtype(out.dtype)))
        np.divide(x, 1 + powers, out=out, casting="same_kind")
        return out

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        s = sigmoid(x)
        return (g * (s * (1 + x * (1 - s))),)


class Hardsigmoid(Elementwise):
    """Hard sigmoid: x/6 + 1/2, limited to the range 0 … 1. The gradient at ±3 is 0."""

    reuses_operand = True
    range, monotone, weight, numpy_calls, examples = "unit", True, 3, 3, _WIDE
    c = "minimum_{t}(maximum_{t}({0} + 3, 0), 6) / 6"
    defined_everywhere = True

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return float_dtype(*dtypes)

    def kernel(self, out: Array, x: Array) -> Array:
        np.add(x, 3, out=out).clip(0, 6, out=out)
        return np.divide(out, 6, out=out)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (where(x > -3, where(x < 3, g / 6, 0), 0),)


class Hardswish(Elementwise):
    """x times the hard sigmoid of x. The gradient is 0 at x = −3 and g at x = 3."""

    weight, numpy_calls, examples, c = 4, 4, _WIDE, "minimum_{t}(maximum_{t}({0} + 3, 0), 6) * {0} / 6"
    reuses_operand = True

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return float_dtype(*dtypes)

    def kernel(self, out: Array, x: Array) -> Array:
        limited = np.add(x, 3, dtype=out.dtype)
        limited = limited.clip(0, 6, out=limited) if limited.ndim else limited.clip(0, 6)
        return np.divide(np.multiply(limited, x, out=out), 6, out=out)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (where(x > -3, where(x < 3, g * (x / 3 + 0.5), g), 0),)


class LeakyRelu(Elementwise):
    """Leaky rectifier: x if positive, else slope · x. The gradient at 0 is slope · g."""

    slope: float
    numpy_calls = 2
    examples = (Example(real(2, 3, low=0.1), slope=0.1), Example(real(2, 3, low=-2.0, high=-0.1), slope=0.01))
    reuses_operand = True

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return float_dtype(*dtypes)

    def kernel(self, out: Array, x: Array) -> Array:
        scaled: Array = np.multiply(x, out.dtype.type(self.slope), dtype=out.dtype)
        # np.maximum is vectorized, but would be wrong for the slope 0, because 0 · ∞ is NaN, and for slopes above 1 or
        # below 0
        if 0 < self.slope <= 1:
            np.maximum(x, scaled, out=out)
        else:
            np.copyto(out, np.where(x > 0, x, scaled))
        return out

    def c_expression(self, suffix: str, *operands: str) -> str:
        (x,) = operands
        return f"{x} > 0 ? {x} : {x} * {c_literal(self.slope, suffix)}"

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (where(x > 0, g, g * self.slope),)


class Gelu(Elementwise):
    """x · Φ(x), where Φ is the distribution function of the standard normal distribution, or its tanh approximation."""

    reuses_operand = True
    approximate: bool = False
    weight = 2 * EXPENSIVE
    examples = (*_SHAPES, Example(real(2, 3, low=-2.0, high=2.0), approximate=True))

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return float_dtype(*dtypes)

    def kernel(self, out: Array, x: Array) -> Array:
        if self.approximate:
            # not x**3, because NumPy's power takes forty times as long
            inner = np.multiply(x, x, dtype=out.dtype) * (0.044715 * _SLOPE)
            inner = np.tanh((inner + _SLOPE) * x)
        else:
            inner = erf.kernel(np.empty_like(out), x * math.sqrt(0.5))
        return np.multiply(0.5 * x, np.add(inner, 1, out=inner if inner.ndim else None), out=out)

    def c_expression(self, suffix: str, *operands: str) -> str:
        (x,), half = operands, c_literal(0.5, suffix)
        if self.approximate:
            cubic, slope = c_literal(0.044715 * _SLOPE, suffix), c_literal(_SLOPE, suffix)
            inner = f"tanh_{suffix}(({x} * {x} * {cubic} + {slope}) * {x})"
        else:
            inner = f"erf_{suffix}({x} * {c_literal(math.sqrt(0.5), suffix)})"
        return f"{half} * {x} * ({inner} + 1)"

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        if not self.approximate:
            density = exp(-0.5 * square(x)) / math.sqrt(2 * math.pi)
            return (g * (0.5 * (1 + erf(x * math.sqrt(0.5))) + x * density),)
        inner = tanh(_SLOPE * (x + 0.044715 * x * square(x)))
        steepness = _SLOPE * (1 + 3 * 0.044715 * square(x))
        return (g * (0.5 * (1 + inner) + 0.5 * x * (1 - square(inner)) * steepness),)


_SLOPE = math.sqrt(2 / math.pi)
"""derivative of erf(x / √2) at 0, for the tanh approximation, whose other constant, 0.044715, is from Hendrycks and
Gimpel, Gaussian Error Linear Units, 2016"""

silu, hardsigmoid, hardswish = Silu(), Hardsigmoid(), Hardswish()


@public
def clip(x: Any, low: Any = None, high: Any = None) -> Expr:
    """Limit the elements of ``x`` to low … high.

    The limits are numbers or tensors, which are broadcast; one of them may be None. If a limit is floating, the result
    is floating too. NaN stays NaN. If low exceeds high, the result is high, as in NumPy. The gradient is g within the
    limits (inclusive), and 0 outside them. (ONNX: Clip; PNNX: torch.clamp.)

    >>> ex.evaluate(ex.clip(np.array([-2.0, 0.5, np.nan]), 0, 1))
    array([0. , 0.5, nan])
    """
    # numeric limits are attributes of one Clip operation; limits that are tensors need one selection each
    numbers = [limit is None or type(limit) in WEAK or isinstance(limit, np.number) for limit in (low, high)]
    if all(numbers):
        return Clip(low, high)(*as_operands((x,)))
    y: Expr = x
    # at a limit, x is selected, so its gradient is g; maximum and minimum propagate NaN
    if low is not None:
        y = where(y >= low, y, maximum(y, low))
    return y if high is None else where(y <= high, y, minimum(y, high))


@public
def relu6(x: Any) -> Expr:
    """Limit the elements of ``x`` to 0 … 6; the gradient at 0 and at 6 is 0.

    >>> ex.evaluate(ex.relu6(np.array([-1.0, 3.0, 8.0])))
    array([0., 3., 6.])
    """
    return Clip(0, 6, True)(*as_operands((x,)))


@public
def leaky_relu(x: Any, slope: float = 0.01) -> Expr:
    """Compute x if it is positive, else slope · x, for each element. The gradient at 0 is slope · g.

    >>> ex.evaluate(ex.leaky_relu(np.array([-1.0, 0.0, 2.0])))
    array([-0.01,  0.  ,  2.  ])
    """
    return LeakyRelu(float(slope))(*as_operands((x,)))


@public
def gelu(x: Any, approximate: bool = False) -> Expr:
    """Compute x · Φ(x) elementwise, where Φ is the standard normal distribution function or its tanh approximation.

    >>> ex.evaluate(ex.gelu(np.array([-1.0, 0.0, 1.0]))).round(3)
    array([-0.159,  0.   ,  0.841])
    """
    return Gelu(bool(approximate))(*as_operands((x,)))


_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
"""constants for which activations keep the mean 0 and the variance 1 (Klambauer et al., Self-Normalizing Neural
Networks, 2017)"""


@public
def elu(x: Any, alpha: float = 1.0) -> Expr:
    """Compute x if it is positive, else α · (eˣ − 1), for each element. The gradient at 0 is α · g.

    >>> ex.evaluate(ex.elu(np.array([-1.0, 0.0, 2.0]))).round(3)
    array([-0.632,  0.   ,  2.   ])
    """
    (x,) = as_operands((x,))
    below = expm1(clip(x, None, 0))  # without clip, the exponential could overflow for x > 0
    return where(x > 0, x, below if alpha == 1 else below * alpha)


@public
def selu(x: Any, alpha: float = _SELU_ALPHA, scale: float = _SELU_SCALE) -> Expr:
    """Compute scale · x if x is positive, else scale · α · (eˣ − 1), for each element.

    >>> ex.evaluate(ex.selu(np.array([-1.0, 0.0, 1.0]))).round(3)
    array([-1.111,  0.   ,  1.051])
    """
    return elu(x, alpha) * scale


@public
def celu(x: Any, alpha: float = 1.0) -> Expr:
    """Compute x if it is positive, else α · (e^(x/α) − 1), for each element. The gradient at 0 is g.

    >>> ex.evaluate(ex.celu(np.array([-1.0, 0.0, 2.0]))).round(3)
    array([-0.632,  0.   ,  2.   ])
    """
    (x,) = as_operands((x,))
    return where(x > 0, x, expm1(clip(x, None, 0) / alpha) * alpha)


@public
def mish(x: Any) -> Expr:
    """Compute x · tanh(log(1 + eˣ)) elementwise.

    >>> ex.evaluate(ex.mish(np.array([-1.0, 0.0, 1.0]))).round(3)
    array([-0.303,  0.   ,  0.865])
    """
    (x,) = as_operands((x,))
    y: Expr = x * tanh(softplus(x))
    return y


@public
def softsign(x: Any) -> Expr:
    """Compute x / (1 + |x|) elementwise.

    >>> ex.evaluate(ex.softsign(np.array([-1.0, 0.0, 3.0])))
    array([-0.5 ,  0.  ,  0.75])
    """
    (x,) = as_operands((x,))
    y: Expr = x / (1 + absolute(x))
    return y


@public
def log_sigmoid(x: Any) -> Expr:
    """Compute log σ(x) elementwise, without overflow.

    >>> ex.evaluate(ex.log_sigmoid(np.array([-1000.0, 0.0]))).round(3)
    array([-1.00e+03, -6.93e-01])
    """
    (x,) = as_operands((x,))
    return -softplus(-x)


@public
def prelu(x: Any, slope: Any) -> Expr:
    """Compute x if it is positive, else slope · x.

    There is one slope for all channels, or one for each channel (axis 1). The gradient at 0 is slope · g.

    >>> ex.evaluate(ex.prelu(np.array([-1.0, 2.0]), 0.25))
    array([-0.25,  2.  ])
    """
    x, slope = as_operands((x, slope))
    if slope.size != 1 and (x.ndim < 2 or slope.shape != (x.shape[1],)):
        raise OperandError(
            f"prelu of {x.type} with slopes {slope.type}",
            rule="there must be one slope, or one for each channel (axis 1)",
            fix="use a slope of shape (1,), or (C,) for x of shape (N, C, …)",
        )
    wide = reshape(slope, () if slope.size == 1 else (slope.size, *[1] * (x.ndim - 2)))
    return where(x > 0, x, x * wide)


@public
def glu(x: Any, axis: int = -1) -> Expr:
    """Multiply the first half of ``x`` along ``axis`` by the sigmoid of the second half: (…, 2n, …) → (…, n, …).

    Raises OperandError if the axis has an odd length. (PNNX: nn.GLU, F.glu.)

    >>> ex.evaluate(ex.glu(np.array([2.0, 0.0])))
    array([1.])
    """
    (x,) = as_operands((x,))
    normalized = normalize_axis(axis, x.ndim, "glu")
    half, odd = divmod(x.shape[normalized], 2)
    if odd:
        raise OperandError(
            f"glu: axis {normalized} of {x.type}",
            rule="the axis must have an even length",
            fix="choose another axis, ex.glu(x, axis=…), or pad this one by 1",
        )
    leading = [slice(None)] * normalized
    return part_of(x, (*leading, slice(half))) * sigmoid(part_of(x, (*leading, slice(half, None))))
