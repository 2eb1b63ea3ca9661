"""Convolutions and poolings of images (N, H, W, C), with TensorFlow's padding: SAME or VALID.

TensorFlow keeps channels last, and explorer's windows have them first: images are transposed on the way in and out. Two
transpositions in a row cancel when a plan is made, so that between two convolutions nothing is moved.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.formats.common.operator_checks import with_one_dtype, with_rank, with_shape
from explorer.formats.tflite.operators.activation import activated
from explorer.formats.tflite.operators.integer_arithmetic import (
    exact,
    factors_of,
    is_quantized,
    limits,
    of_bytes,
    requantized,
    rounded_twice,
    rounding_of,
    single,
    with_bias,
)
from explorer.formats.tflite.operators.table import check_real, operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import integers, optional, required
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

_AXES = ("N", "H", "W", "C")
_TO_CHANNELS_FIRST, _TO_CHANNELS_LAST = (0, 3, 1, 2), (0, 2, 3, 1)

Pair = tuple[int, int]


def _image(op: OperatorContext, whole: bool = False) -> Expr:
    """Return the image with channels first, as explorer's windows have it."""
    x = with_rank("input", required(op, "input"), *_AXES)
    if x.dtype.kind != "f" and not whole:
        raise OperandError(f"input is {x.type}", rule=f"{op.definition.type}: the image must be of real numbers")
    return transpose(x, _TO_CHANNELS_FIRST)


def _pair(op: OperatorContext, height: str, width: str) -> Pair:
    sizes = op.integer(height, 1), op.integer(width, 1)
    if min(sizes) < 1:
        raise OperandError(
            f"{height}={sizes[0]}, {width}={sizes[1]}", rule=f"{op.definition.type}: both must be 1 or more"
        )
    return sizes


def same_padding(length: int, reach: int, stride: int) -> Pair:
    """Return the padding before and after an axis for ⌈length / stride⌉ windows; the odd element is after."""
    total = max(0, (-(-length // stride) - 1) * stride + reach - length)
    return total // 2, total - total // 2


def _padding(op: OperatorContext, lengths: Pair, window: Pair, strides: Pair, dilation: Pair) -> tuple[Pair, Pair]:
    word = op.argument("padding", "SAME")
    if word == "VALID":
        return (0, 0), (0, 0)
    if word != "SAME":
        raise OperandError(f"padding={word!r}", rule=f"{op.definition.type}: padding must be SAME or VALID")
    first, second = (
        same_padding(length, step * (size - 1) + 1, stride)
        for length, size, stride, step in zip(lengths, window, strides, dilation, strict=True)
    )
    return first, second


def _bias(op: OperatorContext, channels: int) -> Expr | None:
    """Return the bias; filters and bias must be of the image's dtype."""
    bias = optional(op, "bias")
    image, filters = required(op, "input"), required(op, "filter")
    with_one_dtype(input=image, filter=filters, **({} if bias is None else {"bias": bias}))
    return None if bias is None else with_shape("bias", bias, (channels,))


def _convolved(op: OperatorContext, filters: Expr, groups: int) -> Expr:
    """Return the convolution by filters (O, C / groups, h, w), with bias and activation."""
    if is_quantized(op, "input"):
        return _integer_convolved(op, filters, groups)
    check_real(op)
    y = _convolution(op, _image(op), filters, _bias(op, filters.shape[0]), groups)
    return activated(op, transpose(y, _TO_CHANNELS_LAST))


def _integer_convolved(op: OperatorContext, filters: Expr, groups: int) -> Expr:
    """Return the same of quantised numbers."""
    x, channels = required(op, "input"), filters.shape[0]
    axis = 3 if op.definition.type == "DEPTHWISE_CONV_2D" else 0
    factors, own_zero = factors_of(op, x, "filter", filters, channels, axis)
    zero, bias = single(op, "input")[1], optional(op, "bias")
    image = transpose(exact(x, zero), _TO_CHANNELS_FIRST)
    total = transpose(_convolution(op, image, exact(filters, own_zero), None, groups), _TO_CHANNELS_LAST)
    return requantized(
        op, with_bias(op, total, bias, "filter", channels, x), factors, x, rounding=rounding_of(x, rounded_twice)
    )


def _convolution(op: OperatorContext, x: Expr, filters: Expr, bias: Expr | None, groups: int) -> Expr:
    """Return the convolution of images with channels first."""
    strides, dilation = _pair(op, "stride_h", "stride_w"), _pair(op, "dilation_h_factor", "dilation_w_factor")
    lengths, window = (x.shape[2], x.shape[3]), (filters.shape[2], filters.shape[3])
    return conv2d(
        x,
        filters,
        bias,
        strides=strides,
        padding=_padding(op, lengths, window, strides, dilation),
        dilation=dilation,
        groups=groups,
    )


# the bias has a dtype of its own in the file
@operator("CONV_2D", quantized=True, ignored=("quantized_bias_type",))
def convolution(op: OperatorContext) -> Expr:
    """Cross-correlation with filters (O, h, w, C / groups)."""
    filters = with_rank("filter", required(op, "filter"), "O", "h", "w", "C")
    channels = with_rank("input", required(op, "input"), *_AXES).shape[3]
    if not filters.shape[3] or channels % filters.shape[3]:
        raise OperandError(
            f"{counted_text(channels, 'channel')}, filters {filters.type}",
            rule="CONV_2D: the filters' channels must divide those of the image",
        )
    return _convolved(op, transpose(filters, _TO_CHANNELS_FIRST), channels // filters.shape[3])


@operator("DEPTHWISE_CONV_2D", quantized=True, ignored=("depth_multiplier",))
def depthwise(op: OperatorContext) -> Expr:
    """Cross-correlation of each channel by filters of its own, (1, h, w, C · multiplier)."""
    filters = with_rank("filter", required(op, "filter"), "1", "h", "w", "C")
    channels = with_rank("input", required(op, "input"), *_AXES).shape[3]
    if filters.shape[0] != 1 or not channels or filters.shape[3] % channels:
        raise OperandError(
            f"{counted_text(channels, 'channel')}, filters {filters.type}",
            rule="DEPTHWISE_CONV_2D: the filters must be (1, h, w, a multiple of the image's channels)",
        )
    return _convolved(op, transpose(filters, (3, 0, 1, 2)), channels)


@operator("TRANSPOSE_CONV", quantized=True, ignored=("quantized_bias_type",))
def transposed(op: OperatorContext) -> Expr:
    """The adjoint of a convolution whose image has the shape output_shape; filters are (O, h, w, C)."""
    filters = with_rank("filter", required(op, "filter"), "O", "h", "w", "C")
    whole = is_quantized(op, "input")
    shape, x, strides = integers(op, "output_shape"), _image(op, whole), _pair(op, "stride_h", "stride_w")
    if len(shape) != 4 or shape[0] != x.shape[0] or shape[3] != filters.shape[0] or min(shape) < 1:
        raise OperandError(
            f"output_shape={shape} for filters {filters.type} and {x.shape[0]} images",
            rule="TRANSPOSE_CONV: output_shape must be (N, H, W, O), of the images and the filters",
        )
    window, lengths = (filters.shape[1], filters.shape[2]), (shape[1], shape[2])
    before = [side for side, _ in _padding(op, lengths, window, strides, (1, 1))]
    after = [
        (count - 1) * stride + size - first - length
        for count, stride, size, first, length in zip(x.shape[2:], strides, window, before, lengths, strict=True)
    ]
    channels, given = filters.shape[0], required(op, "input")
    if whole:
        factors, own_zero = factors_of(op, given, "filter", filters, channels, 0)
        x, filters = exact(x, single(op, "input")[1]), exact(filters, own_zero)
    else:
        check_real(op)
    y = conv_transpose2d(
        x,
        transpose(filters, (3, 0, 1, 2)),
        strides=strides,
        padding=((before[0], max(after[0], 0)), (before[1], max(after[1], 0))),
    )
    if min(after) < 0:  # pixels that no window reaches
        y = pad(y, ((0, 0), (0, 0), (0, max(-after[0], 0)), (0, max(-after[1], 0))))
    y = transpose(y, _TO_CHANNELS_LAST)
    if whole:
        total = with_bias(op, y, optional(op, "bias"), "filter", channels, given)
        return requantized(op, total, factors, given, rounding=rounding_of(given, rounded_twice))
    bias = _bias(op, channels)
    return activated(op, y if bias is None else y + bias)


@operator("MAX_POOL_2D", "AVERAGE_POOL_2D", quantized=True)
def pooled(op: OperatorContext) -> Expr:
    """The largest pixel of each window, or the mean of those inside the image."""
    whole = is_quantized(op, "input")
    check_real(
        op, moves=whole, activation=whole
    )  # the largest whole number is that of the largest real one; as the mean
    x, strides, window = (
        _image(op, whole),
        _pair(op, "stride_h", "stride_w"),
        _pair(op, "filter_height", "filter_width"),
    )
    sides = _padding(op, (x.shape[2], x.shape[3]), window, strides, (1, 1))
    if op.definition.type == "MAX_POOL_2D":
        y = max_pool2d(x, window, strides, sides)
    elif whole:
        y = _integer_means(op, x, window, strides, sides)
    else:
        y = avg_pool2d(x, window, strides, sides, count_padding=False)
    y = transpose(y, _TO_CHANNELS_LAST)
    if not whole:
        return activated(op, y)
    low, high = limits(op, *single(op, "output"), y.dtype)
    return clip(y, low, high) if op.argument("fused_activation_function", "NONE") != "NONE" else y


def _integer_means(op: OperatorContext, x: Expr, window: Pair, strides: Pair, sides: tuple[Pair, Pair]) -> Expr:
    """Return the means of whole numbers of 8 bits, rounded to the nearest, halves away from zero."""
    of_bytes(op, wide=True, input=x)
    # the mean times the window's pixels is their sum, which is exact once it is rounded
    area = window[0] * window[1]
    total = cast(round_half_even(avg_pool2d(exact(x, 0), window, strides, sides) * area), np.dtype(np.int64))
    height, width = total.shape[2:]
    claim_constant("AVERAGE_POOL_2D", height * width + height + width)
    rows, columns = [
        _inside(x.shape[axis + 2], total.shape[axis + 2], window[axis], strides[axis], sides[axis]) for axis in (0, 1)
    ]
    counts = tensor(rows[:, None] * columns)
    return cast(sign(total) * floor_divide(absolute(total) + floor_divide(counts, 2), counts), x.dtype)


def _inside(length: int, count: int, size: int, stride: int, sides: Pair) -> NDArray[np.int64]:
    """Return for each window along an axis how many of its pixels are inside the image."""
    first = np.arange(count, dtype=np.int64) * stride - sides[0]
    return np.minimum(first + size, length) - np.maximum(first, 0)
