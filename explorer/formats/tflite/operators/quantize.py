"""Real numbers of whole ones and back, and constants that are outputs."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.formats.tflite.operators.integer_arithmetic import (
    is_quantized,
    quantized_multipliers,
    rounded_twice,
    scaled,
    single,
)
from explorer.formats.tflite.operators.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import required
from explorer.ops.base import cast, reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.rounding_and_bits import trunc
from explorer.ops.elementwise.unary import absolute, isnan, sign
from explorer.ops.nn.activation import clip

_FLOAT32 = np.dtype(np.float32)
_EXACT = ("int8", "uint8", "int16", "int4")
"""whole numbers whose difference from any zero point is exact in single precision"""


@operator("DEQUANTIZE", quantized=True)
def dequantize(op: OperatorContext) -> Expr:
    """scale · (q − zero_point), for each channel where there are several scales; halves become single precision."""
    x = required(op, "input")
    if x.dtype == np.float16:
        return cast(x, _FLOAT32)
    scale, zero = _scaled(op, "input", x)
    return (cast(x, _FLOAT32) - zero) * scale


@operator("QUANTIZE", quantized=True)
def quantize(op: OperatorContext) -> Expr:
    """The nearest whole number to x / scale, a half away from zero, plus the zero point, within the dtype.

    NaN becomes the least number.
    """
    x = required(op, "input")
    if is_quantized(op, "input"):
        return _rescaled(op, x)
    if x.dtype != _FLOAT32:
        raise OperandError(
            f"input is {x.type}",
            rule="QUANTIZE: the input must be of single precision, or of whole numbers with a scale",
        )
    scale, zero = _scaled(op, "output", x)
    name = op.argument("output.dtype")
    if name not in _EXACT[:3]:
        raise OperandError(f"output is of {name}", rule=f"QUANTIZE: the result must be of {', '.join(_EXACT[:3])}")
    dtype = np.dtype(name)
    limits = np.iinfo(dtype)
    ratio = x / scale
    whole = trunc(ratio)
    nearest = where(absolute(ratio - whole) >= np.float32(0.5), whole + sign(ratio), whole)
    # NaN has no number; interpreters give the least one
    return cast(clip(where(isnan(nearest), -np.inf, nearest) + zero, int(limits.min), int(limits.max)), dtype)


def _rescaled(op: OperatorContext, x: Expr) -> Expr:
    """Return whole numbers of one scale as those of another."""
    (scale, zero), (own_scale, own_zero) = single(op, "input"), single(op, "output")
    name = op.argument("output.dtype")
    if x.dtype.name not in _EXACT[:3] or name not in _EXACT[:3]:
        raise OperandError(
            f"input is {x.type}, the result of {name}", rule=f"QUANTIZE: both must be of {', '.join(_EXACT[:3])}"
        )
    multipliers, shifts = quantized_multipliers(np.array(np.float64(scale) / np.float64(own_scale)))
    number = rounded_twice(cast(x, np.dtype(np.int64)) - zero, multipliers.reshape(()), shifts.reshape(()))
    info = np.iinfo(name)
    return cast(clip(number + own_zero, int(info.min), int(info.max)), np.dtype(name))


def _scaled(op: OperatorContext, name: str, x: Expr) -> tuple[Expr, Expr]:
    """Return the scale and zero point of a tensor as single precision, in the form of its axes."""
    scale, zero = op.input(f"{name}.scale"), op.input(f"{name}.zero_point")
    if scale is None or zero is None or (name == "input" and x.dtype.name not in _EXACT):
        raise OperandError(
            f"{name} is {x.type}",
            rule=f"{op.definition.type}: {name} must have a scale and a zero point, and {', '.join(_EXACT)} elements",
        )
    scaled(op, name)
    scale, zero = cast(scale, _FLOAT32), cast(zero, _FLOAT32)
    if scale.size == 1:
        return reshape(scale, ()), reshape(zero, ())
    axis = op.integer(f"{name}.quantized_dimension", 0)
    if not 0 <= axis < x.ndim or scale.shape != (x.shape[axis],) or zero.size not in (1, scale.size):
        raise OperandError(
            f"{name} is {x.type} with {scale.size} scales for axis {axis}",
            rule=f"{op.definition.type}: there must be one scale, or one for each element of the axis",
        )
    form = (scale.size, *[1] * (x.ndim - 1 - axis))
    return reshape(scale, form), reshape(zero, form if zero.size > 1 else ())


@operator("DENSIFY", quantized=True)
def densify(op: OperatorContext) -> Expr:
    """A sparse tensor with its zeros, as which it is read."""
    return required(op, "input")


@operator("CONSTANT", quantized=True)
def constant(op: OperatorContext) -> Expr:
    """A constant of the file that is an output of its graph."""
    value = op.input("value")
    if value is None:
        raise op.missing("value")
    return value if value.size else tensor(np.zeros(value.shape, value.dtype))
