"""Pooling over windows of sequences, images and volumes."""

from __future__ import annotations

import builtins
import math

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import Array
from explorer.formats.pnnx.operators.base.arguments import each_axis
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.signature import Ints
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.reshape import reshape
from explorer.ops.nn import pooling
from explorer.ops.nn.adaptive_pooling import adaptive_avg_pool, adaptive_max_pool
from explorer.ops.reduction.reduce import max
from explorer.ops.reduction.sorting import argmax

_SHAPES = {1: "L", 2: "H, W", 3: "D, H, W"}
_Sizes = tuple[int | None, ...]


def _check_rank(x: Expr, axes: int) -> None:
    if x.ndim != axes + 2:
        raise OperandError(f"an operand {x.type}", rule=f"the operand must be (N, C, {_SHAPES[axes]})")


def _window(axes: int, kernel_size: Ints, stride: Ints | None, padding: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the size, step and padding of a window along each axis; the default step is the size."""
    size = each_axis("kernel_size", kernel_size, axes)
    return size, each_axis("stride", stride or size, axes), each_axis("padding", padding, axes)


def _sums(x: Expr, size: Ints, steps: Ints, sides: Ints, ceil_mode: bool) -> Expr:
    """Return the sum of each window; the last window may extend beyond the padding."""
    axes = len(size)
    counts = pooling.avg_pool(x, axes, size, steps, sides, ceil_mode, True).shape[2:]
    # zeros after the padding complete the last window, so that all means have the same divisor
    ends = [
        builtins.max((count - 1) * step + width - length - 2 * side, 0)
        for count, step, width, length, side in zip(counts, steps, size, x.shape[2:], sides, strict=True)
    ]
    extended = padded(x, ((0, 0), (0, 0), *[(0, end) for end in ends]))
    return pooling.avg_pool(extended, axes, size, steps, sides, False, True) * math.prod(size)


def _sizes(x: Expr, output_size: _Sizes) -> Ints:
    """Return the number of windows along each axis; None, which pnnx also writes as 0, keeps the length of the axis."""
    lengths = x.shape[2:]
    counts = output_size * len(lengths) if len(output_size) == 1 else output_size
    if len(counts) != len(lengths):
        raise OperandError(
            f"output_size={output_size!r} for {x.type}", rule="output_size must be an integer or None for each axis"
        )
    return tuple([count or length for count, length in zip(counts, lengths, strict=True)])


def _register(axes: int) -> None:
    def types(module: str, function: str) -> tuple[str, str, str]:
        return f"nn.{module}{axes}d", f"F.{function}{axes}d", f"aten::{function}{axes}d"

    @file_operator(*types("MaxPool", "max_pool"))
    def max_pool(
        input: Expr,
        *,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = (0,),
        dilation: Ints = (1,),
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Expr | tuple[Expr, Expr]:
        """Return the largest element of each window, and its index if requested."""
        _check_rank(input, axes)
        size, steps, sides = _window(axes, kernel_size, stride, padding)
        gaps = each_axis("dilation", dilation, axes)
        y = pooling.max_pool(input, axes, size, steps, sides, gaps, ceil_mode)
        if not return_indices:
            return y
        shapes = zip(input.shape[2:], y.shape[2:], size, steps, sides, gaps, strict=True)
        return y, largest_indices(input, [window_spans(*each) for each in shapes])

    @file_operator(*types("AvgPool", "avg_pool"))
    def avg_pool(
        input: Expr,
        *,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Expr:
        """Return the mean of each window, or its sum divided by ``divisor_override``."""
        _check_rank(input, axes)
        window = _window(axes, kernel_size, stride, padding)
        if divisor_override is None:
            return pooling.avg_pool(input, axes, *window, ceil_mode, count_include_pad)
        if divisor_override == 0:
            raise OperandError("divisor_override=0", rule="divisor_override must not be 0")
        return _sums(input, *window, ceil_mode) / divisor_override

    @file_operator(*types("LPPool", "lp_pool"))
    def norm_pool(
        input: Expr, *, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
    ) -> Expr:
        """Return (Σ xᵖ)^(1/p) of each window.

        As in torch, elements beyond the edge count as the window's mean of xᵖ.
        """
        _check_rank(input, axes)
        if norm_type == 0:
            raise OperandError("norm_type=0", rule="norm_type must not be 0")
        size, steps, sides = _window(axes, kernel_size, stride, (0,))
        means = pooling.avg_pool(input**norm_type, axes, size, steps, sides, ceil_mode, True)
        return (means * math.prod(size)) ** (1 / norm_type)

    @file_operator(*types("AdaptiveAvgPool", "adaptive_avg_pool"))
    def adaptive_mean(input: Expr, *, output_size: _Sizes) -> Expr:
        """Return the means of windows that cover the operand evenly; the size None keeps the length of an axis."""
        _check_rank(input, axes)
        return adaptive_avg_pool(input, axes, _sizes(input, output_size))

    @file_operator(*types("AdaptiveMaxPool", "adaptive_max_pool"))
    def adaptive_max(input: Expr, *, output_size: _Sizes, return_indices: bool = False) -> Expr | tuple[Expr, Expr]:
        """Return the maxima of windows that cover the operand evenly, and their indices if requested."""
        _check_rank(input, axes)
        counts = _sizes(input, output_size)
        y = adaptive_max_pool(input, counts)
        if not return_indices:
            return y
        return y, largest_indices(input, [even_spans(*each) for each in zip(input.shape[2:], counts, strict=True)])


for _axes in (1, 2, 3):
    _register(_axes)


def window_spans(length: int, count: int, size: int, step: int, side: int, gap: int) -> Array:
    """Return the indices that each window covers along one axis, (count, size), with −1 for padding."""
    claim_constant("indices of windows", count * size)
    spans = np.arange(count)[:, None] * step - side + np.arange(size) * gap
    return np.where((spans >= 0) & (spans < length), spans, -1)


def even_spans(length: int, count: int) -> Array:
    """Return the indices that each of ``count`` even windows covers, like ``window_spans``."""
    starts, ends = np.arange(count) * length // count, -(-np.arange(1, count + 1) * length // count)
    size = int((ends - starts).max(initial=0))
    claim_constant("indices of windows", count * size)
    spans = starts[:, None] + np.arange(size)
    return np.where(spans < ends[:, None], spans, -1)


def largest_indices(x: Expr, spans: list[Array]) -> Expr:
    """Return the flat index of the largest element of each window, int64.

    It is the first of equal elements, or the last NaN.
    """
    counts, lengths = tuple([len(each) for each in spans]), x.shape[2:]
    windows, elements = math.prod(counts), math.prod([each.shape[1] for each in spans])
    claim_constant("indices of windows", windows * elements)
    table = np.zeros((windows, elements), np.int64)
    inside = np.ones((windows, elements), bool)
    for axis, span in enumerate(spans):
        # window axes come first, then the axes within a window
        shape = [1] * (2 * len(spans))
        shape[axis], shape[len(spans) + axis] = span.shape
        full_shape = (*counts, *[each.shape[1] for each in spans])
        indices = np.broadcast_to(span.reshape(shape), full_shape).reshape(windows, elements)
        table = table * lengths[axis] + indices
        inside &= indices >= 0
    # Padding is replaced by copies of the window's first element. They come first, so they do not change the result.
    first = np.where(inside, table, np.iinfo(np.int64).max).min(1, keepdims=True)
    table = np.sort(np.where(inside, table, first), 1)
    values = take(reshape(x, (*x.shape[:2], math.prod(lengths))), table, 2)
    best = argmax(values, -1)
    if x.dtype.kind == "f":
        last = max(where(values != values, np.arange(elements), -1), -1)
        best = where(last >= 0, last, best)
    entries = best + np.arange(windows) * elements
    return reshape(take(tensor(table.reshape(-1)), entries, 0), (*x.shape[:2], *counts))
