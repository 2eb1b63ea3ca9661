"""Pooling of signals, images and volumes.

explorer pools images and volumes; signals are images of height 1 on the way. Its windows may lie in the padding by half
at most, as torch's; ONNX has no such limit, and pads first where a file goes beyond it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.formats.common.known_inputs import required
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
from explorer.formats.onnx.operators.windows.window_taps import Windows, averages, largest_places, norms
from explorer.net.operators.context import OperatorContext
from explorer.ops.manipulation.padding import padded
from explorer.ops.nn.pooling import avg_pool2d, max_pool2d
from explorer.ops.nn.pooling_3d import avg_pool3d, max_pool3d
from explorer.ops.reduction.reduce import max as largest
from explorer.ops.reduction.reduce import mean


@operator("MaxPool", ignored=("storage_order",))
def max_pool(op: OperatorContext) -> Any:
    """The largest element of each window, and its place."""
    x, windows = _windows(op, required(op, "X"))
    if len(op.definition.outputs) == 1:
        return _largest(x, windows)
    return _largest(x, windows), largest_places(x, windows, op.integer("storage_order", 0) != 0)


def _windows(op: OperatorContext, x: Expr) -> tuple[Expr, Windows]:
    """Return the operand and its windows."""
    check_rank(op, x)
    size, strides, dilation = [for_each_axis(op, x, name) for name in ("kernel_shape", "strides", "dilations")]
    sides = padding(op, x, size, strides, dilation)
    return x, Windows(size, strides, dilation, sides, bool(op.integer("ceil_mode", 0)))


def _largest(x: Expr, windows: Windows) -> Expr:
    size, strides, dilation, sides, ceil = windows
    if _is_wide(windows):
        # No padding may win against an element of the operand.
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        x, sides, ceil = padded(x, windows.widths(x), constant_values=lowest), ((0, 0),) * len(sides), False
    if x.ndim == 5:
        return max_pool3d(x, _three(size), _three(strides), sides, _three(dilation), ceil)
    images = [for_images(numbers) for numbers in (size, strides, dilation)]
    return like(x, max_pool2d(as_image(x), images[0], images[1], sides_of_images(sides), images[2], ceil))


def _three(numbers: Numbers) -> tuple[int, int, int]:
    return numbers[0], numbers[1], numbers[2]


def _is_wide(windows: Windows) -> bool:
    """Whether a window may lie in the padding by more than half, so that the padding must be an operation."""
    numbers = zip(windows.sides, windows.dilation, windows.size, strict=True)
    return any(2 * max(side) > gap * (n - 1) + 1 for side, gap, n in numbers)


@operator("AveragePool")
def average_pool(op: OperatorContext) -> Expr:
    """The mean of each window, with or without its padding."""
    return averaged(op, required(op, "X"))


def averaged(op: OperatorContext, x: Expr, *, whole: bool = False) -> Expr:
    """Return the mean of each window of an operand, with the attributes of an average pooling.

    ``whole`` says that where padding counts, a window counts whole, also what it has beyond the padding.
    """
    x, windows = _windows(op, x)
    counted = bool(op.integer("count_include_pad", 0))
    if whole and counted and windows.ceil:
        x, windows = padded(x, windows.widths(x)), windows._replace(sides=((0, 0),) * len(windows.sides), ceil=False)
    if max(windows.dilation) > 1 or _is_wide(windows):
        return averages(x, windows, counted)
    return _averages(x, windows.size, windows.strides, windows.sides, windows.ceil, counted)


@operator("LpPool")
def norm_pool(op: OperatorContext) -> Expr:
    """(Σ |x|ᵖ)^(1 / p) of each window."""
    return norms(*_windows(op, required(op, "X")), op.integer("p", 2))


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
