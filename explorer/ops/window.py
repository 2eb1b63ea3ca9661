"""Windows that slide over the last two axes of images: what convolution and pooling share."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.types import Array, Shape, whole

Pair: TypeAlias = tuple[int, int]
Padding: TypeAlias = tuple[tuple[int, int], tuple[int, int]]


class Window(NamedTuple):
    """Size, step, padding ((top, bottom), (left, right)) and dilation of a window, in pixels."""

    size: Pair
    strides: Pair
    padding: Padding
    dilation: Pair = (1, 1)
    ceil: bool = False
    """a last window may stand partly outside, when it starts inside the image or its padding at the front"""

    def wrong(self) -> str:
        """The rule that the window breaks, empty where it breaks none."""
        if min(*self.size, *self.strides, *self.dilation) < 1:
            return "a window's size, strides and dilation are at least 1"
        return "padding is not negative" if min(map(min, self.padding)) < 0 else ""

    def output(self, height: int, width: int) -> Pair:
        """How many windows fit below and beside each other; less than 1 where none fits."""
        counts = []
        for axis, length in enumerate((height, width)):
            before, after = self.padding[axis]
            room = length + before + after - self.dilation[axis] * (self.size[axis] - 1) - 1
            count = room // self.strides[axis] + 1
            if self.ceil and room % self.strides[axis] and count * self.strides[axis] < length + before:
                count += 1
            counts.append(count)
        return counts[0], counts[1]

    def padded(self, x: Array, fill: Any, counts: Pair | None = None) -> Array:
        """Images (…, H, W) with their padding and what ``counts`` windows need beyond; a view where that is nothing."""
        widths = self._widths(x.shape, counts)
        if widths == [(0, 0), (0, 0)]:
            return x
        return np.pad(x, [(0, 0)] * (x.ndim - 2) + widths, constant_values=fill)

    def padding_size(self, shape: Shape) -> int:
        """Elements of the copy that ``padded`` makes of images of a shape, 0 where it is a view."""
        widths = self._widths(shape, None)
        if widths == [(0, 0), (0, 0)]:
            return 0
        return math.prod(shape[:-2]) * math.prod([n + sum(w) for n, w in zip(shape[-2:], widths, strict=True)])

    def columns_size(self, shape: Shape) -> int:
        """Elements of all windows of images of a shape."""
        return math.prod((*shape[:-2], *self.size, *self.output(*shape[-2:])))

    def _widths(self, shape: Shape, counts: Pair | None) -> list[Pair]:
        widths = []
        for axis, count in enumerate(counts or self.output(*shape[-2:])):
            before, after = self.padding[axis]
            needed = (count - 1) * self.strides[axis] + self.dilation[axis] * (self.size[axis] - 1) + 1
            widths.append((before, max(after, needed - shape[axis - 2] - before)))
        return widths

    def at(self, padded: Array, row: int, column: int, count: Pair) -> Array:
        """The pixel (row, column) of every window, (…, windows below, windows beside): a view."""
        top, left = row * self.dilation[0], column * self.dilation[1]
        return padded[
            ...,
            top : top + (count[0] - 1) * self.strides[0] + 1 : self.strides[0],
            left : left + (count[1] - 1) * self.strides[1] + 1 : self.strides[1],
        ]

    def overlap(self, row: int, column: int, size: Pair, rows: slice, across: int) -> tuple[Any, Any]:
        """Which windows have their pixel (row, column) inside images of ``size``, and where these pixels lie.

        Two indices of the last two axes: of windows, counted from ``rows.start``, and of images.
        """
        windows, pixels = [], []
        for axis, (tap, start, stop) in enumerate(((row, rows.start, rows.stop), (column, 0, across))):
            step, first = self.strides[axis], tap * self.dilation[axis] - self.padding[axis][0]
            low = max(start, -(first // step))
            high = max(low, min(stop, (size[axis] - 1 - first) // step + 1))
            windows.append(slice(low - start, high - start))
            pixels.append(slice(low * step + first, max(0, (high - 1) * step + first + 1), step))
        return (..., *windows), (..., *pixels)

    def columns(self, x: Array, groups: int) -> Array:
        """All windows of images (N, C, H, W) as columns (N, groups, C / groups · h · w, windows), zero padded."""
        padded = self.padded(x, 0)
        rows, across = self.output(*x.shape[2:])
        n, c = x.shape[:2]
        found = np.empty((n, c, *self.size, rows, across), x.dtype)
        for row in range(self.size[0]):
            for column in range(self.size[1]):
                found[:, :, row, column] = self.at(padded, row, column, (rows, across))
        return found.reshape(n, groups, c // groups * self.size[0] * self.size[1], rows * across)

    def scatter(self, columns: Array, shape: Shape) -> Array:
        """Windows (N, C, h, w, rows, columns) added back to images of ``shape``: the adjoint of reading them."""
        count = columns.shape[-2], columns.shape[-1]
        reach = [
            max(
                shape[axis - 2] + sum(self.padding[axis]),
                (count[axis] - 1) * self.strides[axis] + self.dilation[axis] * (self.size[axis] - 1) + 1,
            )
            for axis in (0, 1)
        ]
        padded = np.zeros((*shape[:2], *reach), columns.dtype)
        for row in range(self.size[0]):
            for column in range(self.size[1]):
                self.at(padded, row, column, count)[...] += columns[:, :, row, column]
        top, left = self.padding[0][0], self.padding[1][0]
        return padded[..., top : top + shape[2], left : left + shape[3]]


def pair(value: int | tuple[int, ...] | list[int], what: str) -> Pair:
    """One number for both axes, or one for each."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    found = tuple([whole(number, what) for number in given])
    if len(found) != 2:
        raise OperandError(f"{what} {value!r}", rule="there is one number for rows and columns, or one for each")
    return found[0], found[1]


def both_sides(value: int | tuple[Any, ...] | list[Any]) -> Padding:
    """Padding as ((top, bottom), (left, right)) from one number, one for each axis, or that form itself."""
    if isinstance(value, (tuple, list)) and value and isinstance(value[0], (tuple, list)) and len(value) == 2:
        return pair(value[0], "padding"), pair(value[1], "padding")
    rows, columns = pair(value, "padding")
    return (rows, rows), (columns, columns)
