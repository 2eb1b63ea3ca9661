"""Adaptive pooling: a given number of windows covers each image evenly; the windows may overlap.

Window i of h along an axis of length H covers ⌊i·H/h⌋ … ⌈(i+1)·H/h⌉ − 1. Each result is computed only from the pixels
of its window, so ∞ and NaN do not affect other windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.ir.operation_examples import Example, real
from explorer.core.ir.policy_operations import composition
from explorer.core.memory_budget import claim_steps
from explorer.core.policy import Items
from explorer.core.registry import public
from explorer.core.types.tensor_type import AnyType, Array, TensorType, as_integer
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import cast, check_axes, float_dtype, reshape
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.gather import TakeAlong
from explorer.ops.manipulation.reshape import expand_dims, squeeze
from explorer.ops.manipulation.slicing import part_of
from explorer.ops.nn.kernels.window import Lengths, for_each
from explorer.ops.reduction.reduce import mean
from explorer.ops.reduction.sorting import argmax

__all__ = ["adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool"]


class AdaptiveAvgPool2d(Operation):
    """Means of windows that cover each image evenly; ``output`` is the number of windows along each axis."""

    family = "reduction"
    output: Lengths
    linear: ClassVar[bool] = True
    accumulates: ClassVar[bool] = True
    examples = (
        Example(real(2, 3, 4, 4), output=(2, 2)),
        Example(real(1, 2, 5, 7), output=(3, 2)),
        Example(real(1, 2, 3, 3), output=(1, 1)),
    )

    def infer(self, x: TensorType) -> TensorType:
        rule = "images must be (N, C, H, W) with at least one pixel, and there must be at least one window"
        return _result_type(self, x, self.output, rule)

    def kernel(self, out: Array, x: Array) -> Array:
        # each window is a single pixel
        if x.shape == out.shape:
            np.copyto(out, x)
            return out
        n, channels, height, width = x.shape
        # pool axis by axis, because the mean of a rectangle is the mean of its column means
        rows = np.empty((n, channels, self.output[0], width), out.dtype, like=out)
        if height % self.output[0] == 0:  # disjoint windows of equal length need only one product
            step = height // self.output[0]
            pixels = x.reshape(n, channels, self.output[0], step, width).astype(out.dtype, copy=False)
            np.matmul(_weights(slice(0, step), out), pixels, out=rows)
        else:
            for index, window in _windows(height, self.output[0]):
                pixels = x[:, :, window].astype(out.dtype, copy=False)
                np.matmul(_weights(window, out), pixels, out=rows[:, :, index])
        if width % self.output[1] == 0:
            step = width // self.output[1]
            np.matmul(rows.reshape(*rows.shape[:3], self.output[1], step), _weights(slice(0, step), out), out=out)
        else:
            for index, window in _windows(width, self.output[1]):
                np.matmul(rows[..., window], _weights(window, out), out=out[..., index])
        return out

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (AdaptiveAvgPool2dGradient((x.shape[2], x.shape[3]))(g),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return _apply_merged(self, size, x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return types[0].size


class AdaptiveAvgPool2dGradient(Operation):
    """Adjoint of adaptive pooling for images of ``size``: divides each window's gradient equally among its pixels."""

    size: Lengths
    linear: ClassVar[bool] = True
    accumulates: ClassVar[bool] = True
    examples = (
        Example(real(2, 3, 2, 2), size=(4, 4)),
        Example(real(1, 2, 3, 2), size=(5, 7)),
        Example(real(1, 2, 3, 3), size=(2, 3)),
    )

    def infer(self, g: TensorType) -> TensorType:
        rule = "the gradient must be (N, C, h, w) with at least one window, and images must have at least one pixel"
        return _result_type(self, g, self.size, rule)

    def kernel(self, out: Array, g: Array) -> Array:
        if g.shape == out.shape:
            np.copyto(out, g)
            return out
        columns = np.zeros((*g.shape[:3], self.size[1]), out.dtype, like=out)
        for index, window in _windows(self.size[1], g.shape[3]):
            columns[..., window] += g[..., index, None] * _weights(window, out)
        out.fill(0)
        for index, window in _windows(self.size[0], g.shape[2]):
            out[:, :, window] += columns[:, :, index, None] * _weights(window, out)[:, None]
        return out

    def gradient(self, upstream: Expr, y: Expr, g: Expr) -> tuple[Expr]:
        return (AdaptiveAvgPool2d((g.shape[2], g.shape[3]))(upstream),)

    def batch(self, size: int, batched: tuple[bool, ...], g: Expr) -> Expr:
        return _apply_merged(self, size, g)

    def flops(self, result: TensorType, *types: TensorType) -> int:
        return result.size


def _result_type(operation: Operation, x: TensorType, size: Lengths, rule: str) -> TensorType:
    """Return the result type (N, C, *size); raise OperandError if ``x`` or the result has no pixels."""
    if x.rank != 4 or min(size) < 1 or min(x.shape[2:]) < 1:
        raise operation.refuse((x,), rule)
    return TensorType((*x.shape[:2], *size), float_dtype(x.dtype))


def _windows(length: int, count: int) -> Iterator[tuple[int, slice]]:
    """Yield (index, slice of pixels) for each of ``count`` windows along an axis of ``length`` pixels."""
    for index in range(count):
        yield (
            index,
            slice(index * length // count, -(-(index + 1) * length // count)),
        )  # floor and ceiling; both are exact for integers


def _weights(window: slice, like: Array) -> Array:
    weights: Array = np.empty(window.stop - window.start, like.dtype, like=like)
    weights.fill(1 / weights.size)
    return weights


def _apply_merged(operation: Operation, size: int, x: Expr) -> Expr:
    """Apply ``operation`` to ``size`` batches of images ``x``, merged into one batch."""
    result = operation(reshape(x, (size * x.shape[1], *x.shape[2:])))
    return reshape(result, (size, x.shape[1], *result.shape[1:]))


@public
def adaptive_avg_pool2d(x: Any, output: int | Lengths) -> Expr:
    """Average the pixels of windows that cover each image evenly: (N, C, H, W) → (N, C, *output).

    ``output`` is the number of windows along each axis. Integers become floating. Each window's gradient is divided
    equally among its pixels. (PNNX: nn.AdaptiveAvgPool2d, F.adaptive_avg_pool2d.)

    >>> ex.evaluate(ex.adaptive_avg_pool2d(np.arange(9.0).reshape(1, 1, 3, 3), (1, 2)))
    array([[[[3.5, 4.5]]]])
    """
    counts = for_each(output, 2, "output size")
    claim_steps("adaptive_avg_pool2d", sum(counts))
    return AdaptiveAvgPool2d(counts)(x)


@public
@composition
@rounded_once
def adaptive_avg_pool3d(x: Any, output: int | Lengths, *, policies: Items = ()) -> Expr:
    """Average the elements of windows that cover each volume evenly: (N, C, D, H, W) → (N, C, *output).

    ``output`` is the number of windows along each axis. Slices, means and concatenations are recorded axis by axis.
    Integers become floating. (PNNX: nn.AdaptiveAvgPool3d, F.adaptive_avg_pool3d.)

    >>> ex.adaptive_avg_pool3d(np.ones((1, 2, 4, 6, 8)), (3, 1, 5)).shape
    (1, 2, 3, 1, 5)
    """
    (x,) = as_operands((x,))
    check_axes("adaptive_avg_pool3d", "N, C, D, H, W", x=x)
    return _axis_by_axis("adaptive_avg_pool3d", cast(x, float_dtype(x.dtype)), for_each(output, 3, "output size"), mean)


def adaptive_avg_pool(x: Any, axes: int, output: int | Lengths) -> Expr:
    """Average the elements of windows that cover the last ``axes`` axes (1 to 3) evenly.

    Sequences (N, C, L) are treated as images of height 1.
    """
    if axes == 1:
        return squeeze(adaptive_avg_pool2d(expand_dims(x, 2), (1, *for_each(output, 1, "output size"))), 2)
    return adaptive_avg_pool2d(x, output) if axes == 2 else adaptive_avg_pool3d(x, output)


@public
def adaptive_max_pool(x: Any, output: int | tuple[int, ...]) -> Expr:
    """Return the maxima of windows that cover the last axes evenly.

    ``output`` is the number of windows along each axis. Window i of l along an axis of length L covers ⌊i·L/l⌋ …
    ⌈(i+1)·L/l⌉ − 1. Slices, maxima and concatenations are recorded axis by axis, because the maximum of a rectangle is
    the maximum of its row maxima. The gradient goes to each window's first maximum. (ONNX has no such operator; PNNX:
    nn.AdaptiveMaxPool1d to 3d.)

    >>> ex.evaluate(ex.adaptive_max_pool(np.arange(6.0).reshape(1, 1, 6), 3))
    array([[[1., 3., 5.]]])
    """
    (x,) = as_operands((x,))
    return _axis_by_axis("adaptive_max_pool", x, output if isinstance(output, (tuple, list)) else (output,), _first_max)


def _first_max(x: Expr, axis: int, keepdims: bool) -> Expr:
    """Take the maxima along ``axis`` at their indices, so that the gradient goes to the first of equal elements."""
    return TakeAlong(axis)(x, argmax(x, axis, keepdims))


def _axis_by_axis(name: str, x: Expr, sizes: Sequence[Any], reduce: Callable[..., Expr]) -> Expr:
    """Apply ``reduce`` to the windows along each of the last axes; ``sizes`` are the numbers of windows."""
    counts = [as_integer(count, f"{name}: a number of windows") for count in sizes]
    if len(counts) > x.ndim or any(count < 1 for count in counts) or 0 in x.shape[x.ndim - len(counts) :]:
        raise OperandError(
            f"{name}: {counts} windows of {x.type}",
            rule="each of the last axes must have at least one window and one element",
            fix="use 1 to pool the whole axis",
        )
    y: Expr = x
    # start with the last axis, so that the first of equal elements in row-major order is selected
    for axis, count in reversed([*enumerate(counts, x.ndim - len(counts))]):
        length = y.shape[axis]
        if count == length:
            continue
        claim_steps(name, 2 * count)
        leading = [slice(None)] * axis
        parts = [part_of(y, (*leading, window)) for _, window in _windows(length, count)]
        y = concatenate([reduce(part, axis, keepdims=True) for part in parts], axis)
    return y
