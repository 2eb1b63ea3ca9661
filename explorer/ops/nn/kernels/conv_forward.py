"""Kernel of convolution: windows gathered block by block into scratch memory, one matrix product per block.

``Conv2d`` runs it, and the image adjoint for each of its phases. Unfolding all windows at once would take h · w times
the memory of the images; a block fits the cache. Images and results may be stored channel by channel or pixel by pixel;
only their strides differ.

Four ways compute the same sums, chosen by shape in ``_pieces``. *Product*: windows become the rows of a matrix, which
BLAS multiplies by the packed filters. Where few channels make a window's row short, the matrix is stored by columns,
gathered tap by tap. 1×1 windows of stride 1 are rows of a matrix already, and nothing is gathered.
*Shifted*: few filters over many channels (the last layers of a decoder) are multiplied with every pixel first, and the
products are added at the taps' distances, because the windows would take more memory than these products. *Grouped*:
one stacked product over the groups. *Depthwise*: a group has one channel, so there is no matrix to multiply;
``einsum`` multiplies the pixels under each tap by it and adds the products to the result in one loop, along as many
pixels of a row as lie side by side in memory.

A filter is not transformed to frequencies here: for the usual 3×3 filters that is slower, and it would spread a NaN
over the whole image. ``conv_winograd`` is the one faster algorithm, and a plan chooses it where it pays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from explorer.core.ir.tiles import TILE_BYTES, Index, Tile, count, longest, slices
from explorer.core.types.tensor_type import Array, Shape
from explorer.ops.nn.kernels.im2col import Im2col, drop_skipped_pixels, pixels, split_groups
from explorer.ops.nn.kernels.window import Window

_FLOPS = 1 << 23
"""arithmetic operations that are worth a tile of their own, an eighth of it without a matrix product: 0.1 ms on one
core, several times the cost of handing a tile to another thread"""
_PIECES = 4
"""least number of tiles, so that several threads find work even if everything fits into one"""
_FILTERS = 64
"""least number of channels of the result in a tile"""
_MANY = 128
"""channels from which a quarter is many: packing their filters takes as long as gathering windows"""
_ROWS = TILE_BYTES
"""bytes of products with one tap"""
_RUN = 1024
"""elements from which on NumPy's inner loop is long enough"""
_SHORT = 12
"""elements of a window's row up to which NumPy copies it slower than it strides over pixels"""
_BLOCK = 8 * TILE_BYTES
"""bytes of gathered windows for a tile: more than elementwise tiles take, since products of few rows are slow"""


def pack(filters: Array, groups: int) -> Array:
    """Pack filters (O, C / groups, h, w) as matrices (groups, h · w · C / groups, O / groups)."""
    o, c, h, w = filters.shape
    # taps before channels, as in a gathered window: its last axis is one run of adjacent channels
    apart = filters.reshape(groups, o // groups, c, h, w).transpose(0, 3, 4, 2, 1)
    return np.ascontiguousarray(apart).reshape(groups, h * w * c, o // groups)


class ConvForwardPlan(NamedTuple):
    """Tiling of a convolution of given shapes."""

    window: Window
    groups: int
    images: Shape
    """(N, C, H, W)"""
    filters: Shape
    """(O, C / groups, h, w)"""

    @property
    def depthwise(self) -> bool:
        """Whether every channel has one filter of its own."""
        return self.groups > 1 and self.filters[:2] == (self.groups, 1)

    @property
    def result(self) -> Shape:
        """(N, O, H′, W′)"""
        return self.images[0], self.filters[0], *self.window.output(*self.images[2:])

    def indices(self, itemsize: int) -> list[Index]:
        """Cut the result into tiles, by shapes alone."""
        n, o, rows, across = self.result
        images, filters, bands = self._counts(itemsize)
        return [
            (image, part, band, slice(0, across))
            for image in slices(n, images)
            for part in slices(o, filters)
            for band in slices(rows, bands)
        ]

    def _counts(self, itemsize: int) -> tuple[int, int, int]:
        """Return the numbers of parts that images, filters and rows of the result are cut into."""
        n, o, rows, across = self.result
        depth = math.prod(self.filters[1:])
        flops = 2 * n * rows * across * depth * o
        pieces = min(_PIECES, max(1, flops // (_FLOPS // 8 if self.depthwise else _FLOPS)))
        # elements that a tile holds for each pixel of the result: a gathered window, or a product's rows and their copy
        held = 4 * o if self.depthwise else max(depth * self.groups, 2 * o)
        if self._few:
            # the pixel's channels, and for each filter a product per tap and the sum
            held = depth // math.prod(self.window.size) + (math.prod(self.window.size) + 1) * o
        row_bytes = across * itemsize * held
        if self.groups == 1 and n * rows * across < o >= 2 * _FILTERS:
            # the filters are the larger operand: each tile reads its own
            return 1, count(o, max(_FILTERS, -(-o // pieces))), 1
        block = max(1, min(_BLOCK // max(1, row_bytes), -(-n * rows // pieces)))
        if block < rows:
            return count(n, 1), 1, count(rows, block)
        return count(n, block // max(1, rows)), 1, 1

    def workspace(self, itemsize: int, spread: bool = False) -> int:
        """Return the bytes of the scratch memory of the largest tile; more if the result's pixels are ``spread``."""
        if not math.prod(self.result):
            return 0
        n, o, high, across = self.result
        parts = self._counts(itemsize)
        images, filters, rows = [longest(size, part) for size, part in zip((n, o, high), parts, strict=True)]
        # a pointwise product reads the images in place; only a spread result (a stride's phase) makes it copy
        slab = 0 if self._pointwise and not spread else math.prod(self._unfolding.slab(images, rows))
        windows = images * rows * across
        if self.depthwise:
            # the sums of a result that is stored otherwise; those of half precision are float32
            block = images * min(rows, self._rows_together(images, itemsize)) * across * o
            return slab * itemsize + block * max(itemsize, 4)
        if self._few:
            products = slab // self.images[1] * math.prod(self.window.size) * filters
            packed = 2 * math.prod(self.filters)  # and turned for this product
            return (slab + products + windows * filters + packed) * itemsize
        columns = windows * math.prod(self.filters[1:]) * self.groups * (slab > 0 or self.groups > 1)
        elements = slab + columns + (windows * filters if spread or self.groups > 1 else 0)
        return elements * itemsize

    def tiles(self, out: Array, images: Array, packed: Array) -> list[Tile]:
        """Return the tiles of the convolution in ``out``; ``packed`` are the filters from ``pack``.

        All views are taken here, once, so that a running tile spends its time outside the interpreter.
        """
        if not (images.size and packed.size):  # an empty sum
            return [Tile(tuple([slice(0, size) for size in out.shape]), lambda: out.fill(0))]
        window, images = drop_skipped_pixels(self.window, images)
        return self._replace(window=window, images=images.shape)._pieces(out, images, packed)

    def _pieces(self, out: Array, images: Array, packed: Array) -> list[Tile]:
        make = self._depthwise if self.depthwise else self._grouped if self.groups > 1 else self._product
        if self._few:
            make = self._shifted
        if self.depthwise:
            # channels last, like the gathered windows, and for each pixel of a run
            packed = np.ascontiguousarray(packed.reshape(self.groups, *self.window.size).transpose(1, 2, 0))
            packed = np.tile(packed, self._pixels_together)
        return [Tile(index, make(out, images, packed, index)) for index in self.indices(images.itemsize)]

    # -- one tile --------------------------------------------------------------------------------------------------

    def _product(self, out: Array, images: Array, packed: Array, index: Index) -> Callable[[], None]:
        n, o, rows, _ = index
        # only one group gets here; all filters are taken without slicing, because BLAS wants adjacent rows
        matrix = packed[0] if o.stop - o.start == packed.shape[2] else packed[0, :, o]
        place = out.transpose(0, 2, 3, 1)[n, rows, :, o]
        source = pixels(images.transpose(0, 2, 3, 1)[n, rows]) if self._pointwise else None
        into = pixels(place)
        if into is not None and source is not None:
            if len(into) == len(source):
                return partial(_multiply, source, matrix, into)
            # one of them is contiguous over all images and the other is not: both are multiplied image by image
            apart = len(place), -1
            return partial(
                _multiply,
                source.reshape(*apart, source.shape[2], copy=False),
                matrix,
                into.reshape(*apart, into.shape[2], copy=False),
            )
        shape = self._unfolding.windows(n.stop - n.start, rows.stop - rows.start)
        order = (3, 4, 5, 0, 1, 2) if self._by_tap else (0, 1, 2, 3, 4, 5)
        wanted: tuple[tuple[Shape, Any], ...] = ((tuple([shape[axis] for axis in order]), images.dtype),)
        if into is None:
            # BLAS cannot write rows with gaps (channel by channel results): the product is written to scratch memory,
            # then copied
            wanted = *wanted, (place.shape, out.dtype)
        parts, depth = 1 if into is None else len(into), matrix.shape[0]
        flat, turned = ((depth, parts, -1), (1, 2, 0)) if self._by_tap else ((parts, -1, depth), (0, 1, 2))

        def views(columns: Array, *products: Array) -> tuple[Array, ...]:
            return columns, columns.reshape(flat).transpose(turned), *products

        gather = self._unfolding.gathering(images, n, rows, flat, wanted, views)

        def compute() -> None:
            windows, columns, rows, *products = gather()
            np.copyto(columns, windows.transpose(order))
            if into is not None:
                _multiply(rows, matrix, into)
            else:
                (product,) = products
                np.matmul(rows[0], matrix, product.reshape(-1, product.shape[3]))
                np.copyto(place, product)

        return compute

    def _shifted(self, out: Array, images: Array, packed: Array, index: Index) -> Callable[[], None]:
        """Multiply every pixel by every tap of the filters, then sum these products, shifted by the taps' distances."""
        n, _, rows, _ = index
        (h, w), (down, across) = self.window.size, self.window.dilation
        o, c = self.filters[:2]
        high, wide = rows.stop - rows.start, self.result[3]
        # windows of one pixel, so many more of them as the filter reaches beyond its first tap
        points = Im2col(self.window._replace(size=(1, 1), dilation=(1, 1)), wide + across * (w - 1), c)
        reach = slice(rows.start, rows.stop + down * (h - 1))
        shape = points.windows(n.stop - n.start, reach.stop - reach.start)[:3]
        matrix = packed.reshape(h * w, c, o).transpose(0, 2, 1).reshape(-1, c)
        into = out.transpose(1, 0, 2, 3)[:, n, rows]
        wanted = ((h, w, o, *shape), out.dtype), (into.shape, out.dtype)

        def views(products: Array, total: Array) -> tuple[Array, ...]:
            moved = [
                products[i, j, :, :, i * down : i * down + high, j * across : j * across + wide]
                for i in range(h)
                for j in range(w)
            ]
            return products.reshape(len(matrix), -1), total, *moved

        gather = points.gathering(images, n, reach, (self.window, high), wanted, views)

        def compute() -> None:
            seen, products, total, first, second, *others = gather()
            np.matmul(matrix, seen.reshape(-1, c).T, products)
            # the taps are added in one fixed order, so that threads do not change the bits; size ≠ 1×1, so two taps
            # exist
            np.add(first, second, out=total)
            for each in others:
                np.add(total, each, out=total)
            np.copyto(into, total)

        return compute

    def _grouped(self, out: Array, images: Array, packed: Array, index: Index) -> Callable[[], None]:
        n, _, rows, _ = index
        shape = self._unfolding.windows(n.stop - n.start, rows.stop - rows.start)
        filters_of_group, depth = self.filters[0] // self.groups, self.filters[1]
        count = math.prod(shape[:3])
        into = out.transpose(0, 2, 3, 1)[n, rows].reshape(*shape[:3], self.groups, filters_of_group, copy=False)
        wanted = ((self.groups, *shape[:5], depth), images.dtype), ((self.groups, count, filters_of_group), out.dtype)

        def views(columns: Array, products: Array) -> tuple[Array, ...]:
            flat = columns.reshape(self.groups, count, -1)
            return (
                columns,
                flat,
                products,
                products.reshape(self.groups, *shape[:3], filters_of_group).transpose(1, 2, 3, 0, 4),
            )

        gather = self._unfolding.gathering(images, n, rows, filters_of_group, wanted, views)

        def compute() -> None:
            windows, columns, flat, products, result = gather()
            np.copyto(columns, split_groups(windows, self.groups))
            np.matmul(flat, packed, products)
            np.copyto(into, result)

        return compute

    def _depthwise(self, out: Array, images: Array, taps: Array, index: Index) -> Callable[[], None]:
        n, _, rows, _ = index
        into = out.transpose(0, 2, 3, 1)[n, rows]
        # half precision is summed in float32, as by a matrix product
        halves = out.dtype.itemsize == 2 and out.dtype.kind not in "iu"
        dtype = np.result_type(out.dtype, np.float32) if halves else out.dtype
        direct = _rows_of_elements(into) if dtype == out.dtype else None
        together = self._rows_together(len(into), images.itemsize)
        blocks = [slice(start, start + together) for start in range(0, into.shape[1], together)]
        shape = len(into), min(together, into.shape[1]), *into.shape[2:]
        wanted: tuple[tuple[Shape, Any], ...] = () if direct is not None else ((shape, dtype),)

        def views(*sums: Array) -> tuple[Array, ...]:
            return sums

        gather = self._unfolding.gathering(images, n, rows, None, wanted, views)

        def add_taps(windows: Array, sums: Array) -> None:
            # the taps are added in one fixed order, so that neither threads nor tiles change the bits
            weights = taps if windows.shape[3] == taps.shape[2] else taps[..., : self.groups]
            np.einsum("nyxktu,tuk->nyxk", windows, weights, out=sums.reshape(windows.shape[:4]), dtype=dtype)

        def compute() -> None:
            windows, *scratch = gather()
            windows = _runs(windows, self._pixels_together)
            if direct is not None:
                add_taps(windows, direct)
                return
            for block in blocks:
                total = scratch[0][:, : into[:, block].shape[1]]
                add_taps(windows[:, block], total)
                np.copyto(into[:, block], total, casting="same_kind")

        return compute

    def _rows_together(self, images: int, itemsize: int) -> int:
        """Return how many rows of a depthwise result are computed together."""
        return max(1, _ROWS // max(1, images * self.result[3] * self.groups * itemsize))

    @property
    def _pixels_together(self) -> int:
        """How many pixels of a row are multiplied in one loop: the fewest that make it long enough, all if none do."""
        across = self.result[3]
        if self.window.strides[1] != 1:
            return 1
        return next((part for part in range(1, across) if not across % part and part * self.groups >= _RUN), across)

    @property
    def _pointwise(self) -> bool:
        return self.window[:3] == ((1, 1), (1, 1), ((0, 0), (0, 0)))

    @property
    def _few(self) -> bool:
        """Whether so few channels are computed from many that windows would take more memory than products."""
        several = self.window.strides == (1, 1) and self.window.size != (1, 1)
        # products take h · w · O elements for a pixel, its window h · w · C: a quarter of it at most
        return several and self.groups == 1 and 4 * self.filters[0] <= min(self.filters[1], _MANY)

    @property
    def _by_tap(self) -> bool:
        """Whether one tap of all windows is gathered after the other, since a row of a window is short."""
        return self.window.size[1] * self.images[1] <= _SHORT

    @property
    def _unfolding(self) -> Im2col:
        return Im2col(self.window, self.result[3], self.images[1])


def _runs(windows: Array, together: int) -> Array:
    """View windows (N, rows, W′, h, w, C) as (N, rows, runs, pixels · C, h, w); a run with gaps has one pixel."""
    n, rows, across, h, w, channels = windows.shape
    if windows.strides[2] != channels * windows.strides[5]:
        together = 1
    pixels_before_taps = windows.transpose(0, 1, 2, 5, 3, 4)
    return pixels_before_taps.reshape(n, rows, across // together, together * channels, h, w, copy=False)


def _rows_of_elements(pixels: Array) -> Array | None:
    """View pixels (N, H, W, C) as (N, H, W · C); None if that needs a copy."""
    n, h, w, c = pixels.shape
    adjacent = pixels.strides[3] == pixels.itemsize and (w == 1 or pixels.strides[2] == c * pixels.itemsize)
    return pixels.reshape(n, h, w * c, copy=False) if adjacent else None


def _multiply(pixels: Array, matrix: Array, into: Array) -> None:
    for rows, out in zip(pixels, into, strict=True):
        np.matmul(rows, matrix, out)
