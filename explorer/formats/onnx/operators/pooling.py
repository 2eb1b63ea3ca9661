"""Pooling of signals and images."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.operator_inputs import given
from explorer.formats.onnx.operators.table import operator
from explorer.formats.onnx.operators.window_attributes import as_image, like, padding, pair
from explorer.net.operators.context import OperatorContext
from explorer.ops.creation.constants import full
from explorer.ops.manipulation.padding import padded
from explorer.ops.nn.kernels.window import Padding, Pair
from explorer.ops.nn.pooling import avg_pool2d, max_pool2d
from explorer.ops.reduction.reduce import max as largest
from explorer.ops.reduction.reduce import mean


@operator("MaxPool")
def max_pool(op: OperatorContext) -> Expr:
    """The largest element of each window."""
    if len(op.definition.outputs) > 1:
        raise OperandError("the output Indices is used", rule="MaxPool must not be asked for indices, only for values")
    op.only("storage_order", 0)
    x = given(op, "X")
    size, strides, dilation = pair(op, x, "kernel_shape"), pair(op, x, "strides"), pair(op, x, "dilations")
    image, sides = as_image(op, x), padding(op, x, size, strides, dilation)
    if _is_wide(sides, size, dilation):
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        image, sides = padded(image, ((0, 0), (0, 0), *sides), constant_values=lowest), ((0, 0), (0, 0))
    return like(x, max_pool2d(image, size, strides, sides, dilation, bool(op.integer("ceil_mode", 0))))


def _is_wide(sides: Padding, size: Pair, dilation: Pair) -> bool:
    """Whether a window may lie in the padding by more than half, so that the padding must be an operation."""
    return any(2 * max(side) > gap * (n - 1) + 1 for side, gap, n in zip(sides, dilation, size, strict=True))


@operator("AveragePool")
def average_pool(op: OperatorContext) -> Expr:
    """The mean of each window, with or without its padding."""
    x = given(op, "X")
    op.only("dilations", (1,) * (x.ndim - 2))
    size, strides = pair(op, x, "kernel_shape"), pair(op, x, "strides")
    sides = padding(op, x, size, strides, (1, 1))
    image, ceil, counted = as_image(op, x), bool(op.integer("ceil_mode", 0)), bool(op.integer("count_include_pad", 0))
    if not _is_wide(sides, size, (1, 1)):
        return like(x, avg_pool2d(image, size, strides, sides, ceil, counted))
    widths = ((0, 0), (0, 0), *sides)
    means = avg_pool2d(padded(image, widths), size, strides, 0, ceil)
    if counted:
        return like(x, means)
    # the mean of ones and padding's zeros is the share of pixels inside: dividing by it leaves the mean of these alone
    inside = padded(full((1, 1, *image.shape[2:]), 1, x.dtype), widths)
    return like(x, means / avg_pool2d(inside, size, strides, 0, ceil))


@operator("GlobalAveragePool")
def global_average_pool(op: OperatorContext) -> Expr:
    """The mean of each channel."""
    x = given(op, "X")
    return mean(x, tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalMaxPool")
def global_max_pool(op: OperatorContext) -> Expr:
    """The largest element of each channel."""
    x = given(op, "X")
    return largest(x, tuple(range(2, x.ndim)), keepdims=True)
