"""Pooling over windows of images (N, C, H, W)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from explorer.core.example import Example, real
from explorer.core.expr import Expr
from explorer.core.operation import Operation, as_operands
from explorer.core.pieces import PIECE_BYTES, Index, Piece, compute, even
from explorer.core.registry import public
from explorer.core.types import AnyType, Array, Shape, TensorType
from explorer.ops.base import float_dtype, reshape
from explorer.ops.movement import broadcast_to
from explorer.ops.window import Padding, Pair, Window, both_sides, pair

_NO_PADDING: Padding = ((0, 0), (0, 0))
_WINDOWS = (
    Example(real(2, 3, 4, 6), size=(2, 2), strides=(2, 2)),
    Example(real(1, 2, 5, 5), size=(3, 2), strides=(2, 1), padding=((1, 1), (0, 0))),
    Example(real(1, 1, 5, 6), size=(2, 2), strides=(2, 2), ceil=True),
)


class Pooling(Operation, abstract=True):
    """What window poolings share."""

    size: Pair
    strides: Pair
    padding: Padding = _NO_PADDING
    dilation: Pair = (1, 1)
    ceil: bool = False
    examples: ClassVar[tuple[Example, ...]] = _WINDOWS

    @property
    def window(self) -> Window:
        """The window that slides."""
        return Window(self.size, self.strides, self.padding, self.dilation, self.ceil)

    def result_shape(self, x: TensorType) -> Shape:
        """(N, C, H′, W′); raises OperandError where no window fits."""
        if x.rank != 4:
            raise self.refuse((x,), "images are (N, C, H, W)", "add a batch axis with ex.expand_dims(x, 0)")
        wrong = self.window.wrong()
        if wrong:
            raise self.refuse((x,), wrong)
        for size, dilation, sides in zip(self.size, self.dilation, self.padding, strict=True):
            if 2 * max(sides) > dilation * (size - 1) + 1:
                raise self.refuse(
                    (x,), f"padding {max(sides)} is at most half of the window, so that none is all padding"
                )
        rows, columns = self.window.output(x.shape[2], x.shape[3])
        if rows < 1 or columns < 1:
            raise self.refuse((x,), f"the window {self.size[0]}×{self.size[1]} fits into the padded image")
        return (*x.shape[:2], rows, columns)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        merged = self(reshape(x, (size * x.shape[1], *x.shape[2:])))
        return reshape(merged, (size, x.shape[1], *merged.shape[1:]))

    def flops(self, result: AnyType, *types: TensorType) -> int:
        assert isinstance(result, TensorType)
        return result.size * self.size[0] * self.size[1]


class Gathering(Pooling, abstract=True):
    """Poolings that combine each window's pixels tap by tap, over views of the images, whichever way these lie."""

    channels_last = True

    def make(self, out: Array, x: Array, index: Index) -> None:
        """Compute one piece of the pooling."""
        raise NotImplementedError

    def kernel(self, out: Array, x: Array) -> Array:
        compute(self.pieces(out, None, x))
        return out

    def pieces(self, out: Array, prepared: None, x: Array) -> list[Piece]:
        n, c, rows, across = out.shape
        block = max(1, PIECE_BYTES // max(1, c * across * out.itemsize))

        def piece(images: slice, band: slice) -> Piece:
            index = images, slice(0, c), band, slice(0, across)
            return Piece(index, lambda: self.make(out, x, index))

        return [piece(images, band) for images in even(n, block // max(1, rows)) for band in even(rows, block)]

    def gather(self, combine: np.ufunc, out: Array, x: Array, index: Index) -> None:
        """Combine the pixels of each window into the piece of ``out``; padding takes no part."""
        part, images = out[index], x[index[0]]
        for row in range(self.size[0]):
            for column in range(self.size[1]):
                windows, pixels = self.window.overlap(row, column, (x.shape[2], x.shape[3]), index[2], out.shape[3])
                into = part[windows]
                combine(into, images[pixels], out=into)


class MaxPool2d(Gathering):
    """The largest pixel of each window; padding never wins."""

    def infer(self, x: TensorType) -> TensorType:
        if x.dtype.kind not in "fiu":
            raise self.refuse((x,), "pixels are real numbers")
        return x.with_shape(self.result_shape(x))

    def make(self, out: Array, x: Array, index: Index) -> None:
        out[index].fill(-np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min)
        self.gather(np.maximum, out, x, index)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (MaxPool2dGradient(self.size, self.strides, self.padding, self.dilation, self.ceil)(g, y, x),)


class MaxPool2dGradient(Operation):
    """The gradient of a max-pooling goes to the first largest pixel of each window, row by row."""

    size: Pair
    strides: Pair
    padding: Padding = _NO_PADDING
    dilation: Pair = (1, 1)
    ceil: bool = False
    nondifferentiable = "which pixel is largest does not vary; differentiate the pooling itself"
    refuses_gradient = True
    examples = (Example(real(1, 1, 2, 2), real(1, 1, 2, 2), real(1, 1, 4, 4), size=(2, 2), strides=(2, 2)),)

    def infer(self, g: TensorType, y: TensorType, x: TensorType) -> TensorType:
        pooled = MaxPool2d(self.size, self.strides, self.padding, self.dilation, self.ceil).infer(x)
        if g.shape != y.shape or pooled.shape != y.shape:
            raise self.refuse((g, y, x), f"the gradient and the result have the pooling's shape {pooled.shape}")
        return TensorType(x.shape, g.dtype)

    def kernel(self, out: Array, g: Array, y: Array, x: Array) -> Array:
        window = Window(self.size, self.strides, self.padding, self.dilation, self.ceil)
        padded = window.padded(x, -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min)
        count = y.shape[2], y.shape[3]
        windows = np.zeros((*x.shape[:2], *self.size, *count), g.dtype)
        free = np.ones(y.shape, bool)
        nan = y != y
        for row in range(self.size[0]):
            for column in range(self.size[1]):
                pixel = window.at(padded, row, column, count)
                chosen = ((pixel == y) | ((pixel != pixel) & nan)) & free
                free &= ~chosen
                np.copyto(windows[:, :, row, column], g, where=chosen)
        np.copyto(out, window.scatter(windows, x.shape))
        return out

    def workspace(self, g: TensorType, y: TensorType, x: TensorType) -> int:
        window = Window(self.size, self.strides, self.padding, self.dilation, self.ceil)
        padded = window.padding_size(x.shape)
        return (window.columns_size(x.shape) + (padded or x.size)) * g.dtype.itemsize + padded * x.dtype.itemsize

    def batch(self, size: int, batched: tuple[bool, ...], g: Expr, y: Expr, x: Expr) -> Expr:
        whole = [v if yes else broadcast_to(v, (size, *v.shape)) for v, yes in zip((g, y, x), batched, strict=True)]
        merged = self(*[reshape(v, (size * v.shape[1], *v.shape[2:])) for v in whole])
        return reshape(merged, (size, whole[2].shape[1], *merged.shape[1:]))

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 2 * types[0].size * self.size[0] * self.size[1]


class MeanPooling(Pooling, abstract=True):
    """What mean pooling and its adjoint share; ``count_padding``: padding counts as zeros, or not at all."""

    count_padding: bool = True
    linear: ClassVar[bool] = True

    @property
    def options(self) -> tuple[Pair, Pair, Padding, Pair, bool, bool]:
        """The attributes that both share."""
        return self.size, self.strides, self.padding, self.dilation, self.ceil, self.count_padding

    def counts(self, height: int, width: int, dtype: np.dtype[Any]) -> Array:
        """How many pixels each window's mean divides by, (windows below, windows beside)."""
        counted = np.ones((height, width), dtype)
        if self.count_padding:
            counted = np.pad(counted, self.padding, constant_values=1)
            window = self.window._replace(padding=_NO_PADDING)
        else:
            window = self.window
        return sum_windows(
            window, window.padded(counted, 0, self.window.output(height, width)), self.window.output(height, width)
        )


class AvgPool2d(Gathering, MeanPooling):
    """The mean of each window; ``count_padding`` says whether padding counts as zeros or not at all."""

    examples = (
        *_WINDOWS,
        Example(real(1, 2, 5, 5), size=(3, 3), strides=(2, 2), padding=((1, 1), (1, 1)), count_padding=False),
        Example(real(1, 2, 6, 5), size=(3, 3), strides=(2, 2), padding=((1, 1), (0, 1)), ceil=True),
    )

    def infer(self, x: TensorType) -> TensorType:
        return TensorType(self.result_shape(x), float_dtype(x.dtype))

    def make(self, out: Array, x: Array, index: Index) -> None:
        part = out[index]
        part.fill(0)
        self.gather(np.add, out, x, index)
        part /= self.counts(x.shape[2], x.shape[3], out.dtype)[index[2]]

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (AvgPool2dGradient(*self.options, x.shape)(g),)


class AvgPool2dGradient(MeanPooling):
    """The adjoint of mean pooling: (N, C, H′, W′) spread back over windows of images of ``shape``."""

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
            raise self.refuse((g,), f"the gradient has the shape of the pooling of {self.shape}")
        return TensorType(self.shape, float_dtype(g.dtype))

    def kernel(self, out: Array, g: Array) -> Array:
        share = g / self.counts(self.shape[2], self.shape[3], out.dtype)
        windows = np.broadcast_to(share[:, :, None, None], (*g.shape[:2], *self.size, *g.shape[2:]))
        np.copyto(out, self.window.scatter(windows, self.shape))
        return out

    def gradient(self, upstream: Expr, y: Expr, g: Expr) -> tuple[Expr]:
        return (AvgPool2d(*self.options)(upstream),)

    def batch(self, size: int, batched: tuple[bool, ...], g: Expr) -> Expr:
        merged = AvgPool2dGradient(*self.options, (size * self.shape[0], *self.shape[1:]))
        return reshape(merged(reshape(g, (size * g.shape[1], *g.shape[2:]))), (size, *self.shape))

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return types[0].size * self.size[0] * self.size[1]


class AdaptiveAvgPool2d(Operation):
    """The means of ``output`` windows that cover the image evenly: window i reaches from ⌊i·H/h⌋ to ⌈(i+1)·H/h⌉."""

    output: Pair
    linear: ClassVar[bool] = True
    examples = (
        Example(real(2, 3, 4, 4), output=(2, 2)),
        Example(real(1, 2, 5, 7), output=(3, 2)),
        Example(real(1, 2, 3, 3), output=(1, 1)),
    )

    def infer(self, x: TensorType) -> TensorType:
        if x.rank != 4 or min(self.output) < 1 or min(x.shape[2:]) < 1:
            raise self.refuse((x,), "images are (N, C, H, W) with at least one pixel, and there is one window at least")
        return TensorType((*x.shape[:2], *self.output), float_dtype(x.dtype))

    def kernel(self, out: Array, x: Array) -> Array:
        rows, columns = _shares(x.shape[2], self.output[0]), _shares(x.shape[3], self.output[1])
        np.matmul(np.matmul(rows.astype(out.dtype), x), columns.T.astype(out.dtype), out=out)
        return out

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        from_rows = as_operands((_shares(x.shape[2], self.output[0]).T.astype(g.dtype),))[0]
        from_columns = as_operands((_shares(x.shape[3], self.output[1]).astype(g.dtype),))[0]
        return (from_rows @ g @ from_columns,)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        merged = self(reshape(x, (size * x.shape[1], *x.shape[2:])))
        return reshape(merged, (size, x.shape[1], *merged.shape[1:]))

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return types[0].size


def _shares(length: int, windows: int) -> Array:
    """(windows, length): the share that each pixel has in each window's mean."""
    shares = np.zeros((windows, length))
    for index in range(windows):
        start, stop = index * length // windows, -(-(index + 1) * length // windows)
        shares[index, start:stop] = 1 / (stop - start)
    return shares


def sum_windows(window: Window, padded: Array, count: Pair) -> Array:
    """The sum of each window of padded images."""
    total = np.array(window.at(padded, 0, 0, count))
    for row in range(window.size[0]):
        for column in range(window.size[1]):
            if row or column:
                total += window.at(padded, row, column, count)
    return total


def _options(
    size: Any, strides: Any, padding: Any, dilation: Any, ceil: bool
) -> tuple[Pair, Pair, Padding, Pair, bool]:
    window = pair(size, "window")
    return (
        window,
        pair(size if strides is None else strides, "strides"),
        both_sides(padding),
        pair(dilation, "dilation"),
        ceil,
    )


@public
def max_pool2d(x: Any, size: Any, strides: Any = None, padding: Any = 0, dilation: Any = 1, ceil: bool = False) -> Expr:
    """The largest pixel of each window of (N, C, H, W); strides are the window's size for None."""
    return MaxPool2d(*_options(size, strides, padding, dilation, ceil))(x)


@public
def avg_pool2d(
    x: Any, size: Any, strides: Any = None, padding: Any = 0, ceil: bool = False, count_padding: bool = True
) -> Expr:
    """The mean of each window of (N, C, H, W); strides are the window's size for None."""
    return AvgPool2d(*_options(size, strides, padding, 1, ceil), count_padding)(x)


@public
def adaptive_avg_pool2d(x: Any, output: int | Pair) -> Expr:
    """The means of output[0] × output[1] windows that cover each image evenly."""
    return AdaptiveAvgPool2d(pair(output, "output size"))(x)
