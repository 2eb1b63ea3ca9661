"""Pooling of signals, images and volumes."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.base.delegated import delegated
from explorer.formats.onnx.operators.base.operator_inputs import required
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.windows.window_attributes import (
    Numbers,
    Sides,
    as_image,
    check_rank,
    for_each_axis,
    for_images,
    like,
    padding,
    sides_of_images,
)
from explorer.net.operators.context import OperatorContext
from explorer.ops.creation.constants import full
from explorer.ops.manipulation.padding import padded
from explorer.ops.nn.pooling import avg_pool2d, max_pool2d
from explorer.ops.nn.pooling_3d import avg_pool3d, max_pool3d
from explorer.ops.reduction.reduce import max as largest
from explorer.ops.reduction.reduce import mean


@operator("MaxPool")
def max_pool(op: OperatorContext) -> Any:
    """The largest element of each window, and where it was found."""
    if len(op.definition.outputs) > 1:
        return delegated(op)
    x = required(op, "X")
    check_rank(op, x)
    size, strides, dilation = [for_each_axis(op, x, name) for name in ("kernel_shape", "strides", "dilations")]
    sides, ceil = padding(op, x, size, strides, dilation), bool(op.integer("ceil_mode", 0))
    if _is_wide(sides, size, dilation):
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        x, sides = padded(x, ((0, 0), (0, 0), *sides), constant_values=lowest), ((0, 0),) * len(sides)
    if x.ndim == 5:
        return max_pool3d(x, _three(size), _three(strides), sides, _three(dilation), ceil)
    images = [for_images(numbers) for numbers in (size, strides, dilation)]
    return like(x, max_pool2d(as_image(x), images[0], images[1], sides_of_images(sides), images[2], ceil))


def _three(numbers: Numbers) -> tuple[int, int, int]:
    return numbers[0], numbers[1], numbers[2]


def _is_wide(sides: Sides, size: Numbers, dilation: Numbers) -> bool:
    """Whether a window may lie in the padding by more than half, so that the padding must be an operation."""
    return any(2 * max(side) > gap * (n - 1) + 1 for side, gap, n in zip(sides, dilation, size, strict=True))


@operator("AveragePool")
def average_pool(op: OperatorContext) -> Any:
    """The mean of each window, with or without its padding."""
    x = required(op, "X")
    check_rank(op, x)
    even = (1,) * (x.ndim - 2)
    if for_each_axis(op, x, "dilations") != even:
        return delegated(op)
    size, strides = for_each_axis(op, x, "kernel_shape"), for_each_axis(op, x, "strides")
    sides = padding(op, x, size, strides, even)
    ceil, counted = bool(op.integer("ceil_mode", 0)), bool(op.integer("count_include_pad", 0))
    if not _is_wide(sides, size, even):
        return _averages(x, size, strides, sides, ceil, counted)
    widths, none = ((0, 0), (0, 0), *sides), ((0, 0),) * len(sides)
    means = _averages(padded(x, widths), size, strides, none, ceil, True)
    if counted:
        return means
    # the mean of ones and padding's zeros is the share of pixels inside: dividing by it leaves the mean of these alone
    inside = padded(full((1, 1, *x.shape[2:]), 1, x.dtype), widths)
    return means / _averages(inside, size, strides, none, ceil, True)


def _averages(x: Expr, size: Numbers, strides: Numbers, sides: Sides, ceil: bool, counted: bool) -> Expr:
    if x.ndim == 5:
        return avg_pool3d(x, _three(size), _three(strides), sides, ceil, counted)
    images = as_image(x), for_images(size), for_images(strides), sides_of_images(sides)
    return like(x, avg_pool2d(*images, ceil, counted))


@operator("GlobalAveragePool")
def global_average_pool(op: OperatorContext) -> Expr:
    """The mean of each channel."""
    x = required(op, "X")
    return mean(x, tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalMaxPool")
def global_max_pool(op: OperatorContext) -> Expr:
    """The largest element of each channel."""
    x = required(op, "X")
    return largest(x, tuple(range(2, x.ndim)), keepdims=True)
