"""How a convolution runs on NumPy: windows gathered block by block into scratch memory, one matrix product a block.

Inside, a pixel's channels lie together (N, H, W, C): a window's row is then one run of memory. Images and results
may lie either way; only their strides differ.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from explorer.core.pieces import PIECE_BYTES, Index, Piece, even, scratch
from explorer.core.types import Array, Shape
from explorer.ops.window import Window

_FLOPS = 1 << 24
"""arithmetic operations that are worth a piece of their own"""
_FILTERS = 64
"""a piece makes at least so many channels of the result"""
_BLOCK = 2 * PIECE_BYTES


def pack(filters: Array, groups: int) -> Array:
    """Filters (O, C / groups, h, w) as matrices (groups, h · w · C / groups, O / groups)."""
    o, c, h, w = filters.shape
    apart = filters.reshape(groups, o // groups, c, h, w).transpose(0, 3, 4, 2, 1)
    return np.ascontiguousarray(apart).reshape(groups, h * w * c, o // groups)


class Convolving(NamedTuple):
    """One convolution of given shapes, and how it is cut."""

    window: Window
    groups: int
    images: Shape
    """(N, C, H, W)"""
    filters: Shape
    """(O, C / groups, h, w)"""

    @property
    def depthwise(self) -> bool:
        """Every channel has one filter of its own."""
        return self.groups > 1 and self.filters[:2] == (self.groups, 1)

    @property
    def result(self) -> Shape:
        """(N, O, H′, W′)"""
        return self.images[0], self.filters[0], *self.window.output(*self.images[2:])

    def indices(self, itemsize: int) -> list[Index]:
        """The parts of the result that are made apart, by shapes alone."""
        n, o, rows, across = self.result
        depth = math.prod(self.filters[1:])
        flops = 2 * n * rows * across * depth * o
        pieces = max(1, flops // _FLOPS)
        row_bytes = across * itemsize * (2 * o if self.depthwise else depth * self.groups)
        every = [slice(0, size) for size in (n, o, rows, across)]
        if self.groups == 1 and n * rows * across < o >= 2 * _FILTERS:
            # the filters are what is large: each piece reads its own
            return [(every[0], part, every[2], every[3]) for part in even(o, max(_FILTERS, -(-o // pieces)))]
        block = max(1, min(_BLOCK // max(1, row_bytes), -(-n * rows // pieces)))
        if block < rows:
            return [(image, every[1], part, every[3]) for image in even(n, 1) for part in even(rows, block)]
        return [(part, *every[1:]) for part in even(n, block // max(1, rows))]

    def workspace(self, itemsize: int) -> int:
        """Bytes of scratch memory that the largest piece takes."""
        if not math.prod(self.result):
            return 0
        images, filters, rows, across = [
            max([part.stop - part.start for part in parts]) for parts in zip(*self.indices(itemsize), strict=True)
        ]
        slab = 0 if self._pointwise else math.prod(self._slab(images, rows))
        if self.depthwise:
            return slab * itemsize
        pixels = images * rows * across
        columns = pixels * math.prod(self.filters[1:]) * self.groups * (slab > 0 or self.groups > 1)
        elements: int = slab + columns + (pixels * filters if self.groups > 1 else 0)
        return elements * itemsize

    def pieces(self, out: Array, images: Array, packed: Array) -> list[Piece]:
        """The pieces of the convolution in ``out``; ``packed`` are the filters as ``pack`` makes them."""
        make = self._depthwise if self.depthwise else self._grouped if self.groups > 1 else self._product

        if not (images.size and packed.size):  # a sum of nothing
            return [Piece(tuple([slice(0, size) for size in out.shape]), lambda: out.fill(0))]

        def piece(index: Index) -> Piece:
            return Piece(index, lambda: make(out, images, packed, index))

        return [piece(index) for index in self.indices(images.itemsize)]

    # -- one piece -------------------------------------------------------------------------------------------------

    def _product(self, out: Array, images: Array, packed: Array, index: Index) -> None:
        n, o, rows, _ = index
        (matrix,) = packed
        if o.stop - o.start < matrix.shape[1]:
            matrix = matrix[:, o]
        if self._pointwise:
            columns = images.transpose(0, 2, 3, 1)[n, rows]
        else:
            windows, columns = self._windows(images, n, rows, (self._windows_shape(n, rows), images.dtype))
            np.copyto(columns, windows)
        part = out.transpose(0, 2, 3, 1)[n, rows, :, o]
        if len(part) == 1 or part.strides[0] == part.shape[1] * part.strides[1]:
            into = part.reshape(-1, part.shape[3], copy=False)
            np.matmul(columns.reshape(len(into), -1), matrix, out=into)
            return
        for image, block in zip(columns, part, strict=True):
            into = block.reshape(-1, part.shape[3], copy=False)
            np.matmul(image.reshape(len(into), -1), matrix, out=into)

    def _grouped(self, out: Array, images: Array, packed: Array, index: Index) -> None:
        n, _, rows, _ = index
        shape = self._windows_shape(n, rows)
        parts = (self.groups, *shape[:5], self.filters[1])
        pixels, each = math.prod(shape[:3]), self.filters[0] // self.groups
        windows, columns, products = self._windows(
            images, n, rows, (parts, images.dtype), ((self.groups, pixels, each), out.dtype)
        )
        step = windows.strides[5]
        apart = as_strided(windows, (*shape[:5], *parts[::6]), (*windows.strides[:5], step * parts[6], step))
        np.copyto(columns, apart.transpose(5, 0, 1, 2, 3, 4, 6))
        np.matmul(columns.reshape(self.groups, pixels, -1), packed, out=products)
        part = out.transpose(0, 2, 3, 1)[n, rows].reshape(*shape[:3], self.groups, each, copy=False)
        np.copyto(part, products.reshape(self.groups, *shape[:3], each).transpose(1, 2, 3, 0, 4))

    def _depthwise(self, out: Array, images: Array, packed: Array, index: Index) -> None:
        n, _, rows, _ = index
        (windows,) = self._windows(images, n, rows)
        taps = np.ascontiguousarray(packed.reshape(self.groups, *self.window.size).transpose(1, 2, 0))
        np.einsum("nyxijc,ijc->nyxc", windows, taps, out=out.transpose(0, 2, 3, 1)[n, rows], casting="same_kind")

    @property
    def _pointwise(self) -> bool:
        return self.window[:3] == ((1, 1), (1, 1), ((0, 0), (0, 0)))

    def _windows_shape(self, n: slice, rows: slice) -> Shape:
        return n.stop - n.start, rows.stop - rows.start, self.result[3], *self.window.size, self.images[1]

    def _slab(self, images: int, rows: int) -> Shape:
        """The padded part of images (N, H, W, C) that rows of the result are made of."""
        size, strides, _, dilation, _ = self.window
        height, width = (
            (count - 1) * strides[axis] + dilation[axis] * (size[axis] - 1) + 1
            for axis, count in enumerate((rows, self.result[3]))
        )
        return images, height, width, self.images[1]

    def _windows(self, images: Array, n: slice, rows: slice, *wanted: tuple[Shape, Any]) -> tuple[Array, ...]:
        """All windows (N, rows, W′, h, w, C), a view of the images or of a padded copy; then what else is wanted."""
        (down, across), (top, left) = self.window.strides, [sides[0] for sides in self.window.padding]
        shape = self._windows_shape(n, rows)
        slab_shape = self._slab(*shape[:2])
        whole, first = images.transpose(0, 2, 3, 1)[n], rows.start * down - top
        if whole.strides[3] == whole.itemsize and self.window.padding == ((0, 0), (0, 0)):
            slab, others = whole[:, first:], [*scratch(*wanted)]
        else:
            slab, *others = scratch((slab_shape, images.dtype), *wanted)
            _fill(slab, whole, first, -left)
        s = slab.strides
        steps = (s[0], s[1] * down, s[2] * across, *[d * b for d, b in zip(self.window.dilation, s[1:3], strict=True)])
        return as_strided(slab, shape, (*steps, s[3])), *others


def _fill(slab: Array, images: Array, top: int, left: int) -> None:
    """Copy the part of images (N, H, W, C) that begins at (top, left) into ``slab``; zeros where there is none."""
    height, width = images.shape[1:3]
    up, down = min(max(-top, 0), slab.shape[1]), max(min(height - top, slab.shape[1]), 0)
    before, behind = min(max(-left, 0), slab.shape[2]), max(min(width - left, slab.shape[2]), 0)
    if up >= down or before >= behind:
        slab.fill(0)
        return
    slab[:, :up], slab[:, down:] = 0, 0
    slab[:, up:down, :before], slab[:, up:down, behind:] = 0, 0
    source, inside = images[:, top + up : top + down, left + before : left + behind], slab[:, up:down, before:behind]
    if images.strides[3] == images.itemsize:
        np.copyto(inside, source)
        return
    for channel in range(images.shape[3]):  # the runs of memory are rows of one channel
        np.copyto(inside[..., channel], source[..., channel])
