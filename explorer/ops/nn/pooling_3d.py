"""Poolings of volumes, composed of the ones in two dimensions: over rows and columns first, then along the depth.

The largest of the largest is the largest. A mean of means is the mean, since every plane of a window counts alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import as_operands
from explorer.core.registry import public
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import reshape
from explorer.ops.nn.kernels.window import for_each, pair
from explorer.ops.nn.pooling import avg_pool2d, max_pool2d

__all__ = ["avg_pool3d", "max_pool3d"]

_Numbers = int | tuple[int, int, int]
_Sides = int | tuple[Any, ...]


@public
def max_pool3d(
    x: Any,
    size: _Numbers,
    strides: _Numbers | None = None,
    padding: _Sides = 0,
    dilation: _Numbers = 1,
    ceil: bool = False,
) -> Expr:
    """Take the largest element of each window: (N, C, D, H, W) → (N, C, D′, H′, W′); strides default to its size.

    Sizes, strides, padding and dilation are one number for all three axes, or one for each; padding may also be a pair
    (before, after) for each. ``ceil`` counts a last window that reaches beyond the volume. The dtype is that of ``x``.
    (ONNX: MaxPool; PNNX: nn.MaxPool3d, F.max_pool3d.)

    >>> ex.max_pool3d(np.ones((1, 2, 4, 6, 8)), 2).shape
    (1, 2, 2, 3, 4)
    """
    spread = for_each(dilation, 3, "dilation")

    def pooled(image: Expr, axes: slice, window: Any, step: Any, sides: Any) -> Expr:
        return max_pool2d(image, window, step, sides, _image_dilation(spread[axes]), ceil)

    return _pooled("max_pool3d", x, size, strides, padding, pooled)


@public
@rounded_once
def avg_pool3d(
    x: Any,
    size: _Numbers,
    strides: _Numbers | None = None,
    padding: _Sides = 0,
    ceil: bool = False,
    count_padding: bool = True,
) -> Expr:
    """Average each window: (N, C, D, H, W) → (N, C, D′, H′, W′); strides default to the window's size.

    Sizes, strides and padding are one number for all three axes, or one for each; padding may also be a pair (before,
    after) for each. ``count_padding`` counts padding as zeros; otherwise a window's sum is divided by its elements
    inside the volume. Integers become floating. (ONNX: AveragePool; PNNX: nn.AvgPool3d, F.avg_pool3d.)

    >>> ex.avg_pool3d(np.ones((1, 2, 4, 6, 8)), (2, 3, 4)).shape
    (1, 2, 2, 2, 2)
    """

    def pooled(image: Expr, axes: slice, window: Any, step: Any, sides: Any) -> Expr:
        return avg_pool2d(image, window, step, sides, ceil, count_padding)

    return _pooled("avg_pool3d", x, size, strides, padding, pooled)


_Pooling = Callable[[Expr, slice, Any, Any, Any], Expr]
_DEPTH, _PLANE = slice(0, 1), slice(1, 3)


def _pooled(name: str, x: Any, size: Any, strides: Any, padding: Any, pooled: _Pooling) -> Expr:
    """Pool planes, then the depth; raises OperandError for operands that are no volumes."""
    (x,) = as_operands((x,))
    if x.ndim != 5:
        raise OperandError(f"{name} of {x.type}", rule="volumes must be (N, C, D, H, W)", fix="x[None] adds the axis N")
    windows = for_each(size, 3, "window")
    steps = windows if strides is None else for_each(strides, 3, "strides")
    sides = [pair(side, "padding") for side in for_each(padding, 3, "padding")]
    n, channels, depth, high, wide = x.shape
    planes = reshape(x, (n, channels * depth, high, wide))
    flat = pooled(planes, _PLANE, windows[_PLANE], steps[_PLANE], tuple(sides[_PLANE]))
    high, wide = flat.shape[2:]
    lines = reshape(flat, (n, channels, depth, high * wide))
    deep = pooled(lines, _DEPTH, (windows[0], 1), (steps[0], 1), (sides[0], (0, 0)))
    return reshape(deep, (n, channels, deep.shape[2], high, wide))


def _image_dilation(dilation: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the dilation of both axes of an image; the second axis of the depth's image has one window position."""
    return (*dilation, 1)[:2]
