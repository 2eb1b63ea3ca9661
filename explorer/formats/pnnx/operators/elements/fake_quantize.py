"""Simulated quantization (fake quantization) of models trained for integer inference."""

from __future__ import annotations

import math

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.registry import function
from explorer.core.types.tensor_type import Shape, normalize_axis
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.ops.base import cast
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.reshape import reshape
from explorer.ops.nn.activation import clip


@file_operator("aten::fake_quantize_per_tensor_affine", "torch.fake_quantize_per_tensor_affine")
def fake_quantize_per_tensor(
    input: Expr, scale: Expr | float, zero_point: Expr | float, quant_min: int, quant_max: int
) -> Expr:
    """Round elements to multiples of ``scale``; quantized integers are clipped to quant_min … quant_max."""
    return _quantized(input, (), scale, zero_point, quant_min, quant_max)


@file_operator("aten::fake_quantize_per_channel_affine", "torch.fake_quantize_per_channel_affine")
def fake_quantize_per_channel(
    input: Expr, scale: Expr | float, zero_point: Expr | float, axis: int, quant_min: int, quant_max: int
) -> Expr:
    """Round elements to multiples of their channel's scale; quantized integers are clipped to quant_min … quant_max."""
    channels = normalize_axis(axis, input.ndim, "fake_quantize")
    shape = tuple([size if i == channels else 1 for i, size in enumerate(input.shape)])
    return _quantized(input, shape, scale, zero_point, quant_min, quant_max)


def _quantized(x: Expr, shape: Shape, scale: Expr | float, zero_point: Expr | float, low: int, high: int) -> Expr:
    if x.dtype.kind != "f" or low > high:
        raise OperandError(
            f"an operand {x.type}, {low} … {high}",
            rule="the operand must be floating-point, and quant_min must not be above quant_max",
        )
    tensors = [each if isinstance(each, Expr) else full((), each, x.dtype) for each in (scale, zero_point)]
    if any(each.size != math.prod(shape) for each in tensors):
        raise OperandError(
            f"scale {tensors[0].type} and zero point {tensors[1].type} for {x.type}",
            rule="there must be one scale and one zero point, or one of each per channel",
        )
    factor, zero = (reshape(cast(each, x.dtype), shape) for each in tensors)
    # torch multiplies by the reciprocal of the scale, which is rounded
    levels = function("round_half_even")(x * (1 / factor)) + zero
    clipped = where(x != x, np.asarray(low, x.dtype), clip(levels, low, high))
    return (clipped - zero) * factor
