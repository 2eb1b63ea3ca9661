"""Quantisation and dequantisation, and constants that are outputs."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.formats.tflite.operators.integer_arithmetic import (
    INT64,
    has_scale,
    quantization_of,
    rescale,
    saturated_cast,
    scale_and_zero_point,
)
from explorer.formats.tflite.operators.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast, reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.rounding_and_bits import trunc
from explorer.ops.elementwise.unary import absolute, isnan, sign

_FLOAT32 = np.dtype(np.float32)
_EXACT = ("int8", "uint8", "int16", "int4")
"""integer dtypes whose differences from zero points are exact in single precision"""


@operator("DEQUANTIZE", quantized=True)
def dequantize(op: OperatorContext, input: Expr) -> Expr:
    """Return scale · (q − zero_point), for each channel if there are several scales; float16 becomes float32."""
    if input.dtype == np.float16:
        return cast(input, _FLOAT32)
    scale, zero = _scaled(op, "input", input)
    return (cast(input, _FLOAT32) - zero) * scale


@operator("QUANTIZE", quantized=True)
def quantize(op: OperatorContext, input: Expr) -> Expr:
    """Return x / scale + zero_point, with the quotient rounded to the nearest integer, halves away from zero.

    Results are clipped to the limits of their dtype. NaN becomes the smallest integer.
    """
    x = input
    if has_scale(op, "input"):
        return _rescaled(op, x)
    if x.dtype != _FLOAT32:
        raise OperandError(
            f"input is {x.type}",
            rule="the input must be float32, or integers with a scale",
        )
    scale, zero = _scaled(op, "output", x)
    name = op.argument("output.dtype")
    if name not in _EXACT[:3]:
        raise OperandError(f"output is {name}", rule=f"the result must be one of {', '.join(_EXACT[:3])}")
    ratio = x / scale
    whole = trunc(ratio)
    nearest = where(absolute(ratio - whole) >= np.float32(0.5), whole + sign(ratio), whole)
    # Interpreters convert NaN to the smallest integer.
    return saturated_cast(where(isnan(nearest), -np.inf, nearest) + zero, np.dtype(name))


def _rescaled(op: OperatorContext, x: Expr) -> Expr:
    """Convert quantised integers ``x`` to the scale of the result."""
    (scale, zero), (own_scale, own_zero) = scale_and_zero_point(op, "input"), scale_and_zero_point(op, "output")
    name = op.argument("output.dtype")
    if x.dtype.name not in _EXACT[:3] or name not in _EXACT[:3]:
        raise OperandError(f"input is {x.type}, the result {name}", rule=f"both must be {' or '.join(_EXACT[:3])}")
    number = rescale(cast(x, INT64) - zero, np.float64(scale) / np.float64(own_scale))
    return saturated_cast(number + own_zero, np.dtype(name))


def _scaled(op: OperatorContext, name: str, x: Expr) -> tuple[Expr, Expr]:
    """Return the scale and zero point of the tensor ``name`` as float32, shaped for broadcasting with ``x``."""
    scale, zero = op.input(f"{name}.scale"), op.input(f"{name}.zero_point")
    if scale is None or zero is None or (name == "input" and x.dtype.name not in _EXACT):
        raise OperandError(
            f"{name} is {x.type}",
            rule=f"{name} must have a scale and a zero point, and {' or '.join(_EXACT)} elements",
        )
    quantization_of(op, name)
    scale, zero = cast(scale, _FLOAT32), cast(zero, _FLOAT32)
    if scale.size == 1:
        return reshape(scale, ()), reshape(zero, ())
    axis = op.integer(f"{name}.quantized_dimension", 0)
    if not 0 <= axis < x.ndim or scale.shape != (x.shape[axis],) or zero.size not in (1, scale.size):
        raise OperandError(
            f"{name} is {x.type} with {scale.size} scales for axis {axis}",
            rule="there must be a single scale, or one scale for each index of the axis",
        )
    shape = (scale.size, *[1] * (x.ndim - 1 - axis))
    return reshape(scale, shape), reshape(zero, shape if zero.size > 1 else ())


@operator("DENSIFY", quantized=True)
def densify(input: Expr) -> Expr:
    """Return ``input`` unchanged, because sparse tensors are already converted to dense ones when they are read."""
    return input


@operator("CONSTANT", quantized=True)
def constant(*, value: Expr) -> Expr:
    """Return a constant that is an output of the graph."""
    return value if value.size else tensor(np.zeros(value.shape, value.dtype))
