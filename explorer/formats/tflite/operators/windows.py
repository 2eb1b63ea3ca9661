"""Convolution and pooling of images (N, H, W, C), with TensorFlow's padding SAME or VALID.

In TensorFlow, channels are the last axis; in explorer's operations, they precede the pixels. Images are therefore
transposed before and after each operation. Plans cancel consecutive transpositions, so no data is moved between two
convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.formats.common.operator_checks import with_one_dtype, with_rank, with_shape
from explorer.formats.tflite.operators.activation import apply_activation, check_float
from explorer.formats.tflite.operators.integer_arithmetic import (
    Activation,
    check_dtypes,
    has_scale,
    is_quantized,
    quantized_product,
    result_limits,
    scale_and_zero_point,
    without_zero_point,
)
from explorer.formats.tflite.operators.table import check_real, operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.signature import Ints, Known, Unused
from explorer.ops.base import cast
from explorer.ops.elementwise.rounding_and_bits import floor_divide, round_half_even
from explorer.ops.elementwise.unary import absolute, sign
from explorer.ops.manipulation.padding import pad
from explorer.ops.manipulation.reshape import transpose
from explorer.ops.nn.activation import clip
from explorer.ops.nn.conv import conv2d
from explorer.ops.nn.conv_transpose import conv_transpose2d
from explorer.ops.nn.pooling import avg_pool2d, max_pool2d
from explorer.record.reasons import counted_text

_TO_CHANNELS_FIRST, _TO_CHANNELS_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
Pair = tuple[int, int]


@dataclass(frozen=True)
class Steps:
    """Options of all window operators: padding and strides."""

    padding: Literal["SAME", "VALID"] = "SAME"
    stride_h: int = 1
    stride_w: int = 1

    @property
    def strides(self) -> Pair:
        """The strides along rows and columns."""
        return _sizes(stride_h=self.stride_h, stride_w=self.stride_w)

    def sides(self, lengths: Sequence[int], window: Sequence[int], dilation: Pair = (1, 1)) -> tuple[Pair, Pair]:
        """Return the padding before and after rows and columns."""
        if self.padding == "VALID":
            return (0, 0), (0, 0)
        first, second = (
            same_padding(length, step * (size - 1) + 1, stride)
            for length, size, stride, step in zip(lengths, window, self.strides, dilation, strict=True)
        )
        return first, second


def same_padding(length: int, reach: int, stride: int) -> Pair:
    """Return the padding before and after an axis that gives ⌈length / stride⌉ windows.

    If the padding is odd, the additional element is added after the axis. ``reach`` is the length of a window.
    """
    total = max(0, (-(-length // stride) - 1) * stride + reach - length)
    return total // 2, total - total // 2


def _sizes(**sizes: int) -> Pair:
    """Return a height and a width, given as keywords; raise OperandError if either is below 1."""
    height, width = sizes.values()
    if min(height, width) < 1:
        listed = ", ".join([f"{name}={size}" for name, size in sizes.items()])
        raise OperandError(listed, rule="both must be at least 1")
    return height, width


def _channels_first(x: Expr) -> Expr:
    return transpose(x, _TO_CHANNELS_FIRST)


@operator("CONV_2D", quantized=True)
def convolution(
    op: OperatorContext,
    input: Expr,
    filter: Expr,
    bias: Expr | None = None,
    *,
    steps: Steps,
    dilation_h_factor: int = 1,
    dilation_w_factor: int = 1,
    fused_activation_function: Activation = "NONE",
    quantized_bias_type: Unused,  # the bias has its own dtype in the file
) -> Expr:
    """Return the cross-correlation with filters (O, h, w, C / groups)."""
    channels = with_rank("input", input, *"NHWC").shape[3]
    count = with_rank("filter", filter, *"OhwC").shape[3]
    if not count or channels % count:
        raise OperandError(
            f"{counted_text(channels, 'channel')}, filters {filter.type}",
            rule="the filters' number of channels must divide the image's number of channels",
        )
    dilation = _sizes(dilation_h_factor=dilation_h_factor, dilation_w_factor=dilation_w_factor)
    filters = _channels_first(filter)
    return _convolved(op, input, filters, bias, channels // count, steps, dilation, fused_activation_function)


@operator("DEPTHWISE_CONV_2D", quantized=True)
def depthwise(
    op: OperatorContext,
    input: Expr,
    filter: Expr,
    bias: Expr | None = None,
    *,
    steps: Steps,
    dilation_h_factor: int = 1,
    dilation_w_factor: int = 1,
    fused_activation_function: Activation = "NONE",
    depth_multiplier: Unused,  # determined by the number of filters
) -> Expr:
    """Return the cross-correlation of each channel with separate filters (1, h, w, C · multiplier)."""
    channels = with_rank("input", input, *"NHWC").shape[3]
    filters = with_rank("filter", filter, *"1hwC")
    if filters.shape[0] != 1 or not channels or filters.shape[3] % channels:
        raise OperandError(
            f"{counted_text(channels, 'channel')}, filters {filters.type}",
            rule="the filters' shape must be (1, h, w, a multiple of the image's channels)",
        )
    dilation = _sizes(dilation_h_factor=dilation_h_factor, dilation_w_factor=dilation_w_factor)
    filters = transpose(filters, (3, 0, 1, 2))
    return _convolved(op, input, filters, bias, channels, steps, dilation, fused_activation_function)


def _convolved(
    op: OperatorContext,
    image: Expr,
    filters: Expr,
    bias: Expr | None,
    groups: int,
    steps: Steps,
    dilation: Pair,
    activation: Activation,
) -> Expr:
    """Return the activation of the convolution with filters (O, C / groups, h, w) plus the bias."""

    def convolved(x: Expr, filters: Expr, bias: Expr | None = None) -> Expr:
        sides = steps.sides(x.shape[1:3], filters.shape[2:], dilation)
        y = conv2d(
            _channels_first(x), filters, bias, strides=steps.strides, padding=sides, dilation=dilation, groups=groups
        )
        return transpose(y, _TO_CHANNELS_LAST)

    if is_quantized(op, "input"):
        axis = 3 if op.definition.type == "DEPTHWISE_CONV_2D" else 0
        return quantized_product(op, image, "filter", filters, bias, convolved, axis=axis, activation=activation)
    _check_real(image, filters, bias)
    bias = None if bias is None else with_shape("bias", bias, filters.shape[:1])
    return apply_activation(convolved(image, filters, bias), activation)


def _check_real(image: Expr, filters: Expr, bias: Expr | None) -> None:
    """Raise OperandError unless the image, the filters and the bias have the same floating-point dtype."""
    with_one_dtype(input=check_float("input", image), filter=filters, **({} if bias is None else {"bias": bias}))


@operator("TRANSPOSE_CONV", quantized=True)
def transposed(
    op: OperatorContext,
    output_shape: Known[Ints],
    filter: Expr,
    input: Expr,
    bias: Expr | None = None,
    *,
    steps: Steps,
    fused_activation_function: Activation = "NONE",
    quantized_bias_type: Unused,  # the bias has its own dtype in the file
) -> Expr:
    """Return the adjoint of a convolution of images with shape ``output_shape``; filters are (O, h, w, C)."""
    channels, *window, _ = with_rank("filter", filter, *"OhwC").shape
    count, *counts, _ = with_rank("input", input, *"NHWC").shape
    shape = output_shape
    if len(shape) != 4 or shape[0] != count or shape[3] != channels or min(shape) < 1:
        raise OperandError(
            f"output_shape={shape} for filters {filter.type} and {count} images",
            rule="output_shape must be (N, H, W, O), with N from the images and O from the filters",
        )
    lengths = shape[1:3]
    before = [side for side, _ in steps.sides(lengths, window)]
    after = [
        (windows - 1) * stride + size - first - length
        for windows, stride, size, first, length in zip(counts, steps.strides, window, before, lengths, strict=True)
    ]

    def product(x: Expr, filters: Expr) -> Expr:
        y = conv_transpose2d(
            _channels_first(x),
            transpose(filters, (3, 0, 1, 2)),
            strides=steps.strides,
            padding=((before[0], max(after[0], 0)), (before[1], max(after[1], 0))),
        )
        if min(after) < 0:  # the last pixels, which no window covers
            y = pad(y, ((0, 0), (0, 0), (0, max(-after[0], 0)), (0, max(-after[1], 0))))
        return transpose(y, _TO_CHANNELS_LAST)

    if is_quantized(op, "input"):
        return quantized_product(op, input, "filter", filter, bias, product, activation=fused_activation_function)
    _check_real(input, filter, bias)
    y = product(input, filter)
    return apply_activation(y if bias is None else y + with_shape("bias", bias, (channels,)), fused_activation_function)


@operator("MAX_POOL_2D", quantized=True)
def max_pool(
    op: OperatorContext,
    input: Expr,
    *,
    steps: Steps,
    filter_height: int = 1,
    filter_width: int = 1,
    fused_activation_function: Activation = "NONE",
) -> Expr:
    """Return the maximum of each window; quantised integers are compared directly, since they have the same order."""
    quantized = _check_pool(op, input)
    window = _sizes(filter_height=filter_height, filter_width=filter_width)
    sides = steps.sides(input.shape[1:3], window)
    y = transpose(max_pool2d(_channels_first(input), window, steps.strides, sides), _TO_CHANNELS_LAST)
    return _limited(op, y, fused_activation_function) if quantized else apply_activation(y, fused_activation_function)


@operator("AVERAGE_POOL_2D", quantized=True)
def average_pool(
    op: OperatorContext,
    input: Expr,
    *,
    steps: Steps,
    filter_height: int = 1,
    filter_width: int = 1,
    fused_activation_function: Activation = "NONE",
) -> Expr:
    """Return the mean of each window's pixels that are inside the image."""
    quantized = _check_pool(op, input)
    window = _sizes(filter_height=filter_height, filter_width=filter_width)
    x, sides = _channels_first(input), steps.sides(input.shape[1:3], window)
    if quantized:
        check_dtypes(op, wide=True, input=input)
        y = transpose(_integer_means(x, window, steps.strides, sides), _TO_CHANNELS_LAST)
        return _limited(op, y, fused_activation_function)
    y = avg_pool2d(x, window, steps.strides, sides, count_padding=False)
    return apply_activation(transpose(y, _TO_CHANNELS_LAST), fused_activation_function)


def _check_pool(op: OperatorContext, image: Expr) -> bool:
    """Return whether ``image`` is quantised; raise OperandError if the result has another scale."""
    quantized = has_scale(op, "input")
    check_real(op, moves=quantized, activation=quantized)
    with_rank("input", image if quantized else check_float("input", image), *"NHWC")
    return quantized


def _limited(op: OperatorContext, y: Expr, activation: Activation) -> Expr:
    """Clip the quantised pixels ``y`` to the range of the activation."""
    low, high = result_limits(*scale_and_zero_point(op, "output"), y.dtype, activation)
    return clip(y, low, high) if activation != "NONE" else y


def _integer_means(x: Expr, window: Pair, strides: Pair, sides: tuple[Pair, Pair]) -> Expr:
    """Return the means of integers, rounded to the nearest integer, with halves rounded away from zero."""
    # The mean times the area, rounded, is exactly the sum of the window.
    area = window[0] * window[1]
    total = cast(
        round_half_even(avg_pool2d(without_zero_point(x, 0), window, strides, sides) * area), np.dtype(np.int64)
    )
    height, width = total.shape[2:]
    claim_constant("AVERAGE_POOL_2D", height * width + height + width)
    rows, columns = [
        _inside(x.shape[axis + 2], total.shape[axis + 2], window[axis], strides[axis], sides[axis]) for axis in (0, 1)
    ]
    counts = tensor(rows[:, None] * columns)
    return cast(sign(total) * floor_divide(absolute(total) + floor_divide(counts, 2), counts), x.dtype)


def _inside(length: int, count: int, size: int, stride: int, sides: Pair) -> NDArray[np.int64]:
    """Return the number of pixels of each window along an axis that are inside the image."""
    first = np.arange(count, dtype=np.int64) * stride - sides[0]
    return np.minimum(first + size, length) - np.maximum(first, 0)
