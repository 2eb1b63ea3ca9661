"""Quantisation that is simulated, as models have it that were trained for whole numbers."""

from __future__ import annotations

import math

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.registry import function
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.pnnx.operators.base.arguments import integer, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.schema import Count
from explorer.ops.base import cast
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.reshape import reshape
from explorer.ops.nn.activation import clip


@file_operator("aten::fake_quantize_per_tensor_affine", "torch.fake_quantize_per_tensor_affine", operands=Count(1, 5))
def fake_quantize(op: OperatorContext) -> Expr:
    """The multiples of a step nearest to the elements, from the least to the largest whole number of steps."""
    return _stepped(op, op.x, (), 3)


@file_operator("aten::fake_quantize_per_channel_affine", "torch.fake_quantize_per_channel_affine", operands=Count(1, 6))
def fake_quantize_channels(op: OperatorContext) -> Expr:
    """The multiples of a step of each channel nearest to the elements."""
    x = op.x
    axis = normalize_axis(integer(op, 3, "axis"), x.ndim, "fake_quantize")
    return _stepped(op, x, tuple([size if place == axis else 1 for place, size in enumerate(x.shape)]), 4)


def _stepped(op: OperatorContext, x: Expr, shape: tuple[int, ...], limits: int) -> Expr:
    low, high = integer(op, limits, "quant_min"), integer(op, limits + 1, "quant_max")
    numbers = [value(op, place, name) for place, name in ((1, "scale"), (2, "zero_point"))]
    if x.dtype.kind != "f" or low > high or not all(isinstance(each, (Expr, int, float)) for each in numbers):
        raise OperandError(
            f"an operand {x.type}, scale and zero point {numbers!r}, {low} … {high}",
            rule=f"{op.definition.type}: there must be real numbers, and quant_min must not be above quant_max",
        )
    tensors = [each if isinstance(each, Expr) else full((), each, x.dtype) for each in numbers]
    if any(each.size != math.prod(shape) for each in tensors):
        raise OperandError(
            f"scale {tensors[0].type} and zero point {tensors[1].type} for {x.type}",
            rule=f"{op.definition.type}: there must be one of each, or one for each channel",
        )
    scale, zero = (reshape(cast(each, x.dtype), shape) for each in tensors)
    # torch multiplies by the inverse, which is rounded itself
    steps = function("round_half_even")(x * (1 / scale)) + zero
    kept = where(x != x, np.asarray(low, x.dtype), clip(steps, low, high))
    return (kept - zero) * scale
