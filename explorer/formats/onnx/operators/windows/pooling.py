"""Pooling of signals, images and volumes.

explorer and torch limit padding to half a window. ONNX has no such limit, so larger padding is recorded as a separate
operation.
"""

from __future__ import annotations

import itertools
from math import prod
from typing import Any, NamedTuple

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_constant, claim_steps
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.windows.window_attributes import Sides, WindowAttributes, check_rank, for_each_axis
from explorer.net.operators.signature import Ints, Outputs
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import add_n
from explorer.ops.manipulation.concat import stack
from explorer.ops.manipulation.padding import padded
from explorer.ops.nn import pooling
from explorer.ops.reduction.reduce import max as largest
from explorer.ops.reduction.reduce import mean
from explorer.ops.reduction.sorting import argmax


@operator("MaxPool")
def max_pool(
    X: Expr,
    *,
    ceil_mode: int = 0,
    storage_order: int = 0,
    window: WindowAttributes,
    outputs: Outputs,
) -> Expr | tuple[Expr, Expr]:
    """Return the largest element of each window, and its index."""
    windows = _windows(X, window, ceil_mode)
    if outputs == 1:
        return _largest(X, windows)
    return _largest(X, windows), largest_indices(X, windows, storage_order != 0)


def _windows(x: Expr, window: WindowAttributes, ceil_mode: int) -> Windows:
    check_rank(x)
    if window.kernel_shape is None:
        raise OperandError("kernel_shape is missing", rule="windows must have a size")
    size = for_each_axis(x, "kernel_shape", window.kernel_shape)
    return Windows(size, *window.steps(x), window.padding(x, size), bool(ceil_mode))


def _largest(x: Expr, windows: Windows) -> Expr:
    size, strides, dilation, sides, ceil = windows
    if _is_wide(windows):
        # Padding must never be the maximum.
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        x, sides, ceil = padded(x, windows.widths(x), constant_values=lowest), ((0, 0),) * len(sides), False
    return pooling.max_pool(x, x.ndim - 2, size, strides, sides, dilation, ceil)


def _is_wide(windows: Windows) -> bool:
    """Return whether padding exceeds half a window, so that it must be a separate operation."""
    numbers = zip(windows.sides, windows.dilation, windows.size, strict=True)
    return any(2 * max(side) > gap * (n - 1) + 1 for side, gap, n in numbers)


@operator("AveragePool")
def average_pool(
    X: Expr,
    *,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    window: WindowAttributes,
) -> Expr:
    """Return the mean of each window, with or without its padding."""
    windows = _windows(X, window, ceil_mode)
    return _averaged(X, windows, bool(count_include_pad))


def _averaged(x: Expr, windows: Windows, counted: bool) -> Expr:
    if max(windows.dilation) > 1 or _is_wide(windows):
        return averages(x, windows, counted)
    return pooling.avg_pool(x, x.ndim - 2, windows.size, windows.strides, windows.sides, windows.ceil, counted)


def whole_averages(
    x: Expr,
    *,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    window: WindowAttributes,
) -> Expr:
    """Return the mean of each window; with ``count_include_pad`` also count positions beyond the padding."""
    windows = _windows(x, window, ceil_mode)
    counted = bool(count_include_pad)
    if counted and windows.ceil:
        x, windows = padded(x, windows.widths(x)), windows._replace(sides=((0, 0),) * len(windows.sides), ceil=False)
    return _averaged(x, windows, counted)


@operator("LpPool")
def norm_pool(
    X: Expr,
    *,
    ceil_mode: int = 0,
    p: int = 2,
    window: WindowAttributes,
) -> Expr:
    """Return (Σ |x|ᵖ)^(1 / p) of each window."""
    return norms(X, _windows(X, window, ceil_mode), p)


@operator("GlobalAveragePool")
def global_average_pool(X: Expr) -> Expr:
    """Return the mean of each channel."""
    return mean(X, tuple(range(2, X.ndim)), keepdims=True)


@operator("GlobalMaxPool")
def global_max_pool(X: Expr) -> Expr:
    """Return the largest element of each channel."""
    return largest(X, tuple(range(2, X.ndim)), keepdims=True)


class Windows(NamedTuple):
    """Windows over the spatial axes of an operand: sizes, strides, dilation and padding of each axis."""

    size: Ints
    strides: Ints
    dilation: Ints
    sides: Sides
    ceil: bool
    """whether the last window may extend beyond the padding"""

    def counts(self, x: Expr) -> Ints:
        """Return the number of windows along each axis; raise OperandError if none fits."""
        counts = []
        for length, size, step, gap, (before, after) in zip(x.shape[2:], *self[:4], strict=True):
            space = length + before + after - gap * (size - 1) - 1
            count = space // step + 1
            if self.ceil and space % step and count * step < length + before:
                count += 1
            counts.append(count)
        if min(counts) < 1:
            raise OperandError(
                f"an operand {x.type}, windows {self.size}", rule="the window must fit into the padded operand"
            )
        return tuple(counts)

    def widths(self, x: Expr) -> Sides:
        """Return the padding of all axes with which all windows fit into the operand."""
        ends = [
            (before, max((count - 1) * step + gap * (size - 1) + 1 - length - before, 0))
            for length, size, step, gap, (before, _), count in zip(x.shape[2:], *self[:4], self.counts(x), strict=True)
        ]
        return ((0, 0), (0, 0), *ends)

    def taps(self, x: Expr, filler: float) -> list[Expr]:
        """Return the elements at each position in a window, in row-major order, with ``filler`` outside the operand."""
        claim_steps("taps of windows", prod(self.size))
        padded_x = padded(x, self.widths(x), constant_values=filler)
        steps = [*zip(self.strides, self.dilation, self.counts(x), strict=True)]
        return [
            padded_x[(slice(None), slice(None), *[_tap(*each) for each in zip(position, steps, strict=True)])]
            for position in itertools.product(*map(range, self.size))
        ]

    def inside(self, x: Expr, counted: bool) -> Any:
        """Return how many taps of each window are inside the operand; with ``counted``, also count taps in padding."""
        result = np.ones((), np.int64)
        for length, size, step, gap, (before, after), count in zip(x.shape[2:], *self[:4], self.counts(x), strict=True):
            claim_constant("taps of windows", count * size)
            positions = np.arange(count)[:, None] * step + np.arange(size) * gap - before
            low, high = (-before, length + after) if counted else (0, length)
            result = result[..., None] * ((positions >= low) & (positions < high)).sum(1)
        claim_constant("taps of windows", result.size)
        return result


def _tap(position: int, axis: tuple[int, int, int]) -> slice:
    step, gap, count = axis
    return slice(position * gap, position * gap + (count - 1) * step + 1, step)


@rounded_once
def averages(x: Expr, windows: Windows, counted: bool) -> Expr:
    """Return the mean of each window's taps inside the operand; with ``counted``, taps in the padding also count."""
    return add_n(*windows.taps(x, 0)) / np.asarray(windows.inside(x, counted), x.dtype)


@rounded_once
def norms(x: Expr, windows: Windows, p: int) -> Expr:
    """Return (Σ |x|ᵖ)^(1 / p) of each window."""
    powers = [abs(tap) ** p for tap in windows.taps(x, 0)]
    return cast(add_n(*powers) ** (1 / p), x.dtype)


def largest_indices(x: Expr, windows: Windows, by_columns: bool) -> Expr:
    """Return the index, in the whole operand, of the first largest element of each window, as int64.

    Indices are row-major; with ``by_columns``, the first spatial axis varies fastest.
    """
    spatial, counts = x.shape[2:], windows.counts(x)
    is_integer = x.dtype.kind in "iu"
    # less than any element, because integers have no −∞
    values = cast(x, np.dtype(np.int64)) if is_integer else x
    chosen = argmax(stack(windows.taps(values, np.iinfo(np.int64).min if is_integer else -np.inf), axis=-1), -1)
    claim_constant("indices of the largest elements", prod(x.shape[:2]) + sum(counts))
    planes = np.arange(prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * len(spatial)) * prod(spatial)
    size, strides, dilation, sides, _ = windows
    parts: list[Expr] = []
    for axis, (taps, step, gap, (before, _), count) in enumerate(
        zip(size, strides, dilation, sides, counts, strict=True)
    ):
        tap = chosen // prod(size[axis + 1 :]) % taps
        first = (np.arange(count) * step - before).reshape(-1, *[1] * (len(spatial) - axis - 1))
        unit = prod(spatial[:axis]) if by_columns else prod(spatial[axis + 1 :])
        parts.append((tap * gap + first) * unit)
    return add_n(*parts) + planes
