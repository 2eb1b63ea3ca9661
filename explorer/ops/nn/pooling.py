"""Max and mean pooling along one, two or three axes.

The operations pool images (N, C, H, W); sequences and volumes are converted to images. The operations and their
gradients have tiled kernels. The gradient of max pooling finds the maxima again, so no indices are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.ir.operation_examples import Example, real
from explorer.core.ir.tiles import Index
from explorer.core.registry import public
from explorer.core.types.custom_dtypes import is_floating
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import broadcast_to, check_axes, float_dtype, reshape
from explorer.ops.manipulation.reshape import expand_dims, squeeze
from explorer.ops.nn.kernels.pooling_tiles import WINDOWS, Pooling, PoolingBackward, PoolingForward, WindowOperation
from explorer.ops.nn.kernels.window import Lengths, Padding, Window, window_of

__all__ = ["avg_pool2d", "avg_pool3d", "max_pool2d", "max_pool3d"]


class MaxPool2d(PoolingForward):
    """Maximum of each window, excluding padding.

    If a window contains NaN, the maximum is NaN. Integers keep their dtype, and their padding has the dtype's minimum.
    """

    def infer(self, x: TensorType) -> TensorType:
        if x.dtype.kind not in "iu" and not is_floating(x.dtype):
            raise self.refuse((x,), "pixels must be real numbers")
        return x.with_shape(self.result_shape(x))

    def compute_tile(self, out: Array, x: Array, index: Index) -> None:
        least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
        self.gather_by_axis(np.maximum, least, out, x, index)

    def workspace(self, x: TensorType) -> int:
        elements, itemsize = self.scratch_elements(x.shape, self.result_shape(x), x.dtype.itemsize), x.dtype.itemsize
        buffered = 3 * min(elements, np.getbufsize())  # memory for NumPy's buffers, if rows are not contiguous
        return (elements + buffered) * itemsize

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (MaxPool2dGradient(self.size, self.strides, self.padding, self.dilation, self.ceil)(g, y, x),)


class MaxPool2dGradient(PoolingBackward):
    """Gradient of max pooling, which goes to each window's first maximum in row-major order.

    As in other frameworks, and unlike in ``Max``, equal maxima do not share the gradient. The maximum is found again,
    because storing an index for each window would need as much memory as the result.
    """

    accumulates = True
    examples = (
        Example(real(1, 1, 2, 2), real(1, 1, 2, 2), real(1, 1, 4, 4), size=(2, 2), strides=(2, 2)),
        Example(
            real(1, 2, 3, 2),
            real(1, 2, 3, 2),
            real(1, 2, 5, 6),
            size=(3, 3),
            strides=(2, 3),
            padding=((1, 1), (0, 1)),
        ),
    )

    def infer(self, g: TensorType, y: TensorType, x: TensorType) -> TensorType:
        shape = self.result_shape(x)
        if g.shape != y.shape or shape != y.shape:
            raise self.refuse((g, y, x), f"the gradient and the result must have the pooling's shape {shape}")
        return TensorType(x.shape, g.dtype)

    def compute_tile(self, out: Array, index: Index, g: Array, y: Array, x: Array) -> None:
        n, _, band, _ = index
        rows, columns = self.overlapping_rows(band, y.shape[2]), y.shape[3]
        part, images, upstream, largest = out[index], x[n], g[n, :, rows], y[n, :, rows]
        within = self.within(band)
        zero = out.dtype.type(0)
        part.fill(0)
        for row, column, windows, chosen in self.first_maximum_masks(images, largest, rows):
            inside, into = within.overlap(row, column, (part.shape[2], part.shape[3]), rows, columns)
            # ``chosen`` covers whole image rows, so select the windows ``inside`` the band
            first = inside[1].start - windows[1].start
            selected = chosen[:, :, first : first + inside[1].stop - inside[1].start]
            part[into] += np.where(selected, upstream[inside], zero)

    def workspace(self, g: TensorType, y: TensorType, x: TensorType) -> int:
        windows, itemsize = self.max_overlapping_windows(x.shape, y.shape, g.dtype.itemsize), g.dtype.itemsize
        buffered = min(windows, np.getbufsize())  # memory for NumPy's buffers in where and add
        return windows * (3 + itemsize) + buffered * (1 + 2 * itemsize)

    def gradient(self, upstream: Expr, result: Expr, g: Expr, y: Expr, x: Expr) -> tuple[Expr, None, None]:
        return (
            LargestPixels(self.size, self.strides, self.padding, self.dilation, self.ceil)(upstream, y, x),
            None,
            None,
        )

    def batch(self, size: int, batched: tuple[bool, ...], g: Expr, y: Expr, x: Expr) -> Expr:
        return _batched(self, size, batched, g, y, x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 2 * types[0].size * self.size[0] * self.size[1]


class LargestPixels(WindowOperation):
    """Pixels of v at the position of the first maximum in each window of the images x.

    This is the adjoint of ``MaxPool2dGradient``. v has the shape of x, and y is the pooling's result.
    """

    examples = (
        Example(real(1, 1, 4, 4), real(1, 1, 2, 2), real(1, 1, 4, 4), size=(2, 2), strides=(2, 2)),
        Example(
            real(1, 2, 5, 6),
            real(1, 2, 3, 2),
            real(1, 2, 5, 6),
            size=(3, 3),
            strides=(2, 3),
            padding=((1, 1), (0, 1)),
        ),
    )

    def infer(self, v: TensorType, y: TensorType, x: TensorType) -> TensorType:
        if v.shape != x.shape or self.result_shape(x) != y.shape:
            raise self.refuse((v, y, x), "v must have the shape of the images, and y the shape of their pooling")
        return TensorType(y.shape, v.dtype)

    def kernel(self, out: Array, v: Array, y: Array, x: Array) -> Array:
        out.fill(0)
        for row, column, windows, chosen in self.first_maximum_masks(x, y, slice(0, y.shape[2])):
            _, pixels = self.window.overlap(row, column, (x.shape[2], x.shape[3]), slice(0, y.shape[2]), y.shape[3])
            np.copyto(out[windows], v[pixels], where=chosen)
        return out

    def workspace(self, v: TensorType, y: TensorType, x: TensorType) -> int:
        return 3 * y.size

    def gradient(self, upstream: Expr, result: Expr, v: Expr, y: Expr, x: Expr) -> tuple[Expr, None, None]:
        return (
            MaxPool2dGradient(self.size, self.strides, self.padding, self.dilation, self.ceil)(upstream, y, x),
            None,
            None,
        )

    def batch(self, size: int, batched: tuple[bool, ...], v: Expr, y: Expr, x: Expr) -> Expr:
        return _batched(self, size, batched, v, y, x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 2 * types[1].size * self.size[0] * self.size[1]


def _batched(operation: Operation, size: int, batched: tuple[bool, ...], *operands: Expr) -> Expr:
    all_batched = [
        v if is_batched else broadcast_to(v, (size, *v.shape)) for v, is_batched in zip(operands, batched, strict=True)
    ]
    merged_result = operation(*[reshape(v, (size * v.shape[1], *v.shape[2:])) for v in all_batched])
    return reshape(merged_result, (size, all_batched[0].shape[1], *merged_result.shape[1:]))


class MeanPooling(Pooling, abstract=True):
    """Base class of mean pooling and its adjoint. If ``count_padding`` is true, padding counts as zeros in the mean."""

    count_padding: bool = True
    linear: ClassVar[bool] = True
    accumulates: ClassVar[bool] = True

    @property
    def options(self) -> tuple[Lengths, Lengths, Padding, Lengths, bool, bool]:
        """Attributes shared by mean pooling and its adjoint."""
        return self.size, self.strides, self.padding, self.dilation, self.ceil, self.count_padding

    def counts(self, height: int, width: int, like: Array) -> Array:
        """Return the divisors (H′, W′) of the windows' means, with the dtype and device of ``like``."""
        along = []
        for axis, (length, windows) in enumerate(zip((height, width), self.window.output(height, width), strict=True)):
            before, after = self.padding[axis] if self.count_padding else (0, 0)
            first = np.arange(windows, like=like) * self.strides[axis] - self.padding[axis][0]
            # a window that starts at pixel ``first`` has ⌈(end − first) / dilation⌉ taps before the pixel ``end``
            ends = [-((first - end) // self.dilation[axis]) for end in (-before, length + after)]
            inside, outside = [np.clip(end, 0, self.size[axis]) for end in ends]
            along.append(outside - inside)
        counts: Array = np.outer(*along).astype(like.dtype)
        return counts


class AvgPool2d(PoolingForward, MeanPooling):
    """Mean of each window. If ``count_padding`` is true, padding counts as zeros in the mean."""

    examples = (
        *WINDOWS,
        Example(real(1, 2, 5, 5), size=(3, 3), strides=(2, 2), padding=((1, 1), (1, 1)), count_padding=False),
        Example(real(1, 2, 6, 5), size=(3, 3), strides=(2, 2), padding=((1, 1), (0, 1)), ceil=True),
    )

    def infer(self, x: TensorType) -> TensorType:
        return TensorType(self.result_shape(x), float_dtype(x.dtype))

    def compute_tile(self, out: Array, x: Array, index: Index) -> None:
        part = out[index]
        part.fill(0)
        self.gather(np.add, out, x, index)
        part /= self.counts(x.shape[2], x.shape[3], out)[index[2]]

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (AvgPool2dGradient(*self.options, x.shape)(g),)


class AvgPool2dGradient(PoolingBackward, MeanPooling):
    """Adjoint of mean pooling: distributes each element of (N, C, H′, W′) over its window in images of ``shape``."""

    shape: Shape = ()
    examples = (
        Example(real(1, 2, 2, 2), size=(2, 2), strides=(2, 2), shape=(1, 2, 4, 4)),
        Example(
            real(1, 2, 3, 3),
            size=(3, 3),
            strides=(2, 2),
            padding=((1, 1), (1, 1)),
            count_padding=False,
            shape=(1, 2, 5, 5),
        ),
    )

    def infer(self, g: TensorType) -> TensorType:
        if self.result_shape(TensorType(self.shape, g.dtype)) != g.shape:
            raise self.refuse((g,), f"the gradient must have the shape of the pooling of {self.shape}")
        return TensorType(self.shape, float_dtype(g.dtype))

    def compute_tile(self, out: Array, index: Index, g: Array) -> None:
        n, _, band, _ = index
        rows = self.overlapping_rows(band, g.shape[2])
        part = out[index]
        part.fill(0)
        within = self.within(band)
        divided = g[n, :, rows] / self.counts(self.shape[2], self.shape[3], out)[rows]
        for row, column in self.taps:
            windows, into = within.overlap(row, column, (part.shape[2], part.shape[3]), rows, g.shape[3])
            part[into] += divided[windows]

    def workspace(self, g: TensorType) -> int:
        type_ = self.infer(g)
        return self.max_overlapping_windows(type_.shape, g.shape, type_.dtype.itemsize) * type_.dtype.itemsize

    def gradient(self, upstream: Expr, y: Expr, g: Expr) -> tuple[Expr]:
        return (AvgPool2d(*self.options)(upstream),)

    def batch(self, size: int, batched: tuple[bool, ...], g: Expr) -> Expr:
        merged_result = AvgPool2dGradient(*self.options, (size * self.shape[0], *self.shape[1:]))
        return reshape(merged_result(reshape(g, (size * g.shape[1], *g.shape[2:]))), (size, *self.shape))

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return types[0].size * self.size[0] * self.size[1]


@public
def max_pool2d(
    x: Any,
    size: int | Lengths,
    strides: int | Lengths | None = None,
    padding: int | tuple[Any, ...] = 0,
    dilation: int | Lengths = 1,
    ceil: bool = False,
) -> Expr:
    """Return the maximum of each window: (N, C, H, W) → (N, C, H′, W′).

    ``strides`` default to ``size``. If ``ceil`` is true, a last window that extends beyond the image is included. The
    dtype does not change. If a window contains NaN, its maximum is NaN. The gradient goes to the first maximum of each
    window. (ONNX: MaxPool; PNNX: nn.MaxPool2d, F.max_pool2d.)

    >>> ex.evaluate(ex.max_pool2d(np.arange(16.0).reshape(1, 1, 4, 4), 2))
    array([[[[ 5.,  7.],
             [13., 15.]]]])
    """
    return max_pool(x, 2, size, strides, padding, dilation, ceil)


@public
def max_pool3d(
    x: Any,
    size: int | Lengths,
    strides: int | Lengths | None = None,
    padding: int | tuple[Any, ...] = 0,
    dilation: int | Lengths = 1,
    ceil: bool = False,
) -> Expr:
    """Return the maximum of each window: (N, C, D, H, W) → (N, C, D′, H′, W′).

    ``strides`` default to ``size``. Size, strides, padding and dilation are one number for all three axes or one number
    for each axis; padding may also be one pair (before, after) for each axis. If ``ceil`` is true, a last window that
    extends beyond the volume is included. The dtype does not change. (ONNX: MaxPool; PNNX: nn.MaxPool3d, F.max_pool3d.)

    >>> ex.max_pool3d(np.ones((1, 2, 4, 6, 8)), 2).shape
    (1, 2, 2, 3, 4)
    """
    return max_pool(x, 3, size, strides, padding, dilation, ceil)


@public
def avg_pool2d(
    x: Any,
    size: int | Lengths,
    strides: int | Lengths | None = None,
    padding: int | tuple[Any, ...] = 0,
    ceil: bool = False,
    count_padding: bool = True,
) -> Expr:
    """Average the pixels of each window: (N, C, H, W) → (N, C, H′, W′).

    ``strides`` default to ``size``. If ``count_padding`` is true, padding counts as zeros in the mean; otherwise the
    sum is divided by the number of the window's pixels inside the image. Integers become floating. (ONNX: AveragePool;
    PNNX: nn.AvgPool2d, F.avg_pool2d.)

    >>> ex.evaluate(ex.avg_pool2d(np.arange(16.0).reshape(1, 1, 4, 4), 2))
    array([[[[ 2.5,  4.5],
             [10.5, 12.5]]]])
    """
    return avg_pool(x, 2, size, strides, padding, ceil, count_padding)


@public
def avg_pool3d(
    x: Any,
    size: int | Lengths,
    strides: int | Lengths | None = None,
    padding: int | tuple[Any, ...] = 0,
    ceil: bool = False,
    count_padding: bool = True,
) -> Expr:
    """Average the elements of each window: (N, C, D, H, W) → (N, C, D′, H′, W′).

    ``strides`` default to ``size``. Size, strides and padding are one number for all three axes or one number for each
    axis; padding may also be one pair (before, after) for each axis. If ``count_padding`` is true, padding counts as
    zeros in the mean; otherwise the sum is divided by the number of the window's elements inside the volume. Integers
    become floating. (ONNX: AveragePool; PNNX: nn.AvgPool3d, F.avg_pool3d.)

    >>> ex.avg_pool3d(np.ones((1, 2, 4, 6, 8)), (2, 3, 4)).shape
    (1, 2, 2, 2, 2)
    """
    return avg_pool(x, 3, size, strides, padding, ceil, count_padding)


def max_pool(
    x: Any, axes: int, size: Any, strides: Any = None, padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> Expr:
    """Return the maximum of each window along the last ``axes`` axes; see ``max_pool3d``."""
    window = window_of(size, axes, size if strides is None else strides, padding, dilation, ceil)
    return _pooled(f"max_pool{axes}d", x, window, lambda step: MaxPool2d(*step))


def avg_pool(
    x: Any,
    axes: int,
    size: Any,
    strides: Any = None,
    padding: Any = 0,
    ceil: bool = False,
    count_padding: bool = True,
) -> Expr:
    """Average the elements of each window along the last ``axes`` axes; see ``avg_pool3d``."""
    window = window_of(size, axes, size if strides is None else strides, padding, 1, ceil)

    # volumes are pooled in two steps, which would round the result twice
    pooled = rounded_once(_pooled) if axes == 3 else _pooled
    return pooled(f"avg_pool{axes}d", x, window, lambda step: AvgPool2d(*step, count_padding))


def _pooled(name: str, x: Any, window: Window, pooling: Callable[[Window], Operation]) -> Expr:
    """Record the pooling of ``x``: images, sequences or volumes.

    Sequences are treated as images of height 1. Volumes are pooled plane by plane and then along the depth, because the
    maximum of maxima is the maximum, and the mean of equally weighted means is the mean.
    """
    axes = len(window.size)
    if axes == 2:
        return pooling(window)(x)
    (x,) = as_operands((x,))
    check_axes(name, "N, C, L" if axes == 1 else "N, C, D, H, W", x=x)
    if axes == 1:
        return squeeze(pooling(window.as_image())(expand_dims(x, 2)), 2)
    n, channels, depth, height, width = x.shape
    pooled_planes = pooling(window.plane())(reshape(x, (n, channels * depth, height, width)))
    height, width = pooled_planes.shape[2:]
    # pool along the depth; the pixels of a plane are flattened, and the window has size 1 along them
    pooled_depth = pooling(window.along(0))(reshape(pooled_planes, (n, channels, depth, height * width)))
    return reshape(pooled_depth, (n, channels, pooled_depth.shape[2], height, width))
