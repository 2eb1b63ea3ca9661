"""How a convolution runs on NumPy: windows gathered block by block into scratch memory, one matrix product a block.

Inside, a pixel's channels lie together (N, H, W, C): a window's row is then one run of memory. Images and results
may lie either way; only their strides differ.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from explorer.core.pieces import PIECE_BYTES, Index, Piece, even, scratch
from explorer.core.types import Array, Shape
from explorer.ops.window import Window

_FLOPS = 1 << 23
"""arithmetic operations that are worth a piece of their own"""
_PIECES = 4
"""so many threads find work, also where all would fit into one piece"""
_FILTERS = 64
"""a piece makes at least so many channels of the result"""
_BLOCK = 8 * PIECE_BYTES


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
        pieces = min(_PIECES, max(1, flops // _FLOPS))
        row_bytes = across * itemsize * (4 * o if self.depthwise else max(depth * self.groups, 2 * o))
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
        """The pieces of the convolution in ``out``; ``packed`` are the filters as ``pack`` makes them.

        All views are made here, once: a piece itself spends its time outside the interpreter.
        """
        if not (images.size and packed.size):  # a sum of nothing
            return [Piece(tuple([slice(0, size) for size in out.shape]), lambda: out.fill(0))]
        make = self._depthwise if self.depthwise else self._grouped if self.groups > 1 else self._product
        if self.depthwise:
            packed = np.ascontiguousarray(packed.reshape(self.groups, *self.window.size).transpose(1, 2, 0))
        return [Piece(index, make(out, images, packed, index)) for index in self.indices(images.itemsize)]

    # -- one piece -------------------------------------------------------------------------------------------------

    def _product(self, out: Array, images: Array, packed: Array, index: Index) -> Callable[[], None]:
        n, o, rows, _ = index
        matrix = packed[0] if o.stop - o.start == packed.shape[2] else packed[0, :, o]
        into = out.transpose(0, 2, 3, 1)[n, rows, :, o]
        whole = images.transpose(0, 2, 3, 1)[n, rows]
        as_they_lie = self._pointwise and _evenly_spaced(whole[:1])
        pixels = whole if as_they_lie else into
        together = 1 if _evenly_spaced(into) and _evenly_spaced(pixels) else len(into)
        into = into.reshape(together, -1, into.shape[3], copy=False)
        if as_they_lie:
            return partial(_multiply, pixels.reshape(together, -1, pixels.shape[3], copy=False), matrix, into)
        shape = self._windows_shape(n, rows), images.dtype
        flat = *into.shape[:2], matrix.shape[0]
        gather = self._gathering(images, n, rows, flat, (shape,), lambda columns: (columns, columns.reshape(flat)))

        def compute() -> None:
            windows, columns, pixels = gather()
            np.copyto(columns, windows)
            _multiply(pixels, matrix, into)

        return compute

    def _grouped(self, out: Array, images: Array, packed: Array, index: Index) -> Callable[[], None]:
        n, _, rows, _ = index
        shape = self._windows_shape(n, rows)
        each, depth = self.filters[0] // self.groups, self.filters[1]
        pixels = math.prod(shape[:3])
        into = out.transpose(0, 2, 3, 1)[n, rows].reshape(*shape[:3], self.groups, each, copy=False)
        wanted = ((self.groups, *shape[:5], depth), images.dtype), ((self.groups, pixels, each), out.dtype)

        def views(columns: Array, products: Array) -> tuple[Array, ...]:
            flat = columns.reshape(self.groups, pixels, -1)
            return columns, flat, products, products.reshape(self.groups, *shape[:3], each).transpose(1, 2, 3, 0, 4)

        gather = self._gathering(images, n, rows, each, wanted, views)

        def compute() -> None:
            windows, columns, flat, products, found = gather()
            step = windows.strides[5]
            apart = (*shape[:5], self.groups, depth), (*windows.strides[:5], step * depth, step)
            np.copyto(columns, as_strided(windows, *apart).transpose(5, 0, 1, 2, 3, 4, 6))
            np.matmul(flat, packed, products)
            np.copyto(into, found)

        return compute

    def _depthwise(self, out: Array, images: Array, taps: Array, index: Index) -> Callable[[], None]:
        n, _, rows, _ = index
        into = out.transpose(0, 2, 3, 1)[n, rows]
        gather = self._gathering(images, n, rows, 0, (), lambda: ())

        def compute() -> None:
            np.einsum("nyxijc,ijc->nyxc", gather()[0], taps, out=into, casting="same_kind")

        return compute

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

    def _gathering(
        self,
        images: Array,
        n: slice,
        rows: slice,
        key: Hashable,
        wanted: tuple[tuple[Shape, Any], ...],
        views: Callable[..., tuple[Array, ...]],
    ) -> Callable[[], tuple[Array, ...]]:
        """A function that gives all windows (N, rows, W′, h, w, C), and ``views`` of scratch memory as ``wanted``.

        The windows are a view of the images where these are padded by nothing and lie pixel by pixel, else of a padded
        copy. The views depend on the convolution, on ``key`` and on what is wanted.
        """
        (down, across), (top, left) = self.window.strides, [sides[0] for sides in self.window.padding]
        shape, dtype = self._windows_shape(n, rows), images.dtype
        whole, first = images.transpose(0, 2, 3, 1)[n], rows.start * down - top

        def steps(s: Shape) -> Shape:
            dilated = [d * b for d, b in zip(self.window.dilation, s[1:3], strict=True)]
            return s[0], s[1] * down, s[2] * across, *dilated, s[3]

        key = self, shape, key, wanted
        if whole.strides[3] == whole.itemsize and self.window.padding == ((0, 0), (0, 0)):
            part = whole[:, first:]
            inside = as_strided(part, shape, steps(part.strides), writeable=False)
            return lambda: (inside, *scratch(key, wanted, views))
        slab_shape = self._slab(*shape[:2])
        copies, zeros = padded(slab_shape, whole, first, -left)
        strides = steps(_dense(slab_shape, dtype.itemsize))

        def room(slab: Array, *others: Array) -> tuple[Array, ...]:
            return slab, np.ndarray(shape, dtype, slab, strides=strides), *views(*others)

        def gather() -> tuple[Array, ...]:
            slab, *found = scratch(("padded", key), ((slab_shape, dtype), *wanted), room)
            for place in zeros:
                slab[place] = 0
            for place, source in copies:
                slab[place] = source
            return tuple(found)

        return gather


def _multiply(pixels: Array, matrix: Array, into: Array) -> None:
    for rows, out in zip(pixels, into, strict=True):
        np.matmul(rows, matrix, out)


def _evenly_spaced(array: Array) -> bool:
    """Whether the pixels of all images (N, H, W, C) are evenly spaced in memory."""
    axes = [(size, step) for size, step in zip(array.shape[:3], array.strides, strict=False) if size > 1]
    return all(step == size * inner for (_, step), (size, inner) in itertools.pairwise(axes))


def _dense(shape: Shape, itemsize: int) -> Shape:
    return tuple([itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))])


def padded(shape: Shape, images: Array, top: int, left: int) -> tuple[list[tuple[Any, Array]], list[Any]]:
    """How a slab (N, H, W, C) of images that begins at (top, left) is filled: what is copied where; where zeros are."""
    height, width = images.shape[1:3]
    up, down = min(max(-top, 0), shape[1]), max(min(height - top, shape[1]), 0)
    before, behind = min(max(-left, 0), shape[2]), max(min(width - left, shape[2]), 0)
    if up >= down or before >= behind:
        return [], [...]
    every, rows = slice(None), slice(up, down)
    borders = [
        (every, slice(0, up)),
        (every, slice(down, shape[1])),
        (every, rows, slice(0, before)),
        (every, rows, slice(behind, shape[2])),
    ]
    zeros = [place for place in borders if place[-1].start < place[-1].stop]
    source = images[:, top + up : top + down, left + before : left + behind]
    inside = every, rows, slice(before, behind)
    if images.strides[3] == images.itemsize:
        return [(inside, source)], zeros
    # the runs of memory are rows of one channel
    return [((*inside, channel), source[..., channel]) for channel in range(shape[3])], zeros
