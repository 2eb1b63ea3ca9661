"""Kernel of convolution: gathers blocks of windows into scratch memory, with one matrix product per block.

``Conv2d`` uses it, and so does each phase of ``Conv2dImageGradient``. Unfolding all windows at once would need h · w
times the images' memory, whereas a block fits the cache. Images and results may be stored with channels first or last;
only their strides differ.

``_pieces`` chooses one of four methods according to the shapes.

*Product*: windows become the rows of a matrix, and BLAS multiplies this matrix by the packed filters. If a window's
rows are short because there are few channels, the matrix is gathered tap by tap and stored by columns. 1×1 windows with
stride 1 already are the rows of a matrix, so nothing is gathered.

*Shifted*: if there are few filters and many channels, as in a decoder's last layers, windows need more memory than
products, so every pixel is multiplied by every tap, and the products are shifted and added.

*Grouped*: one stacked product computes all groups.

*Depthwise*: each group has one channel, so there is no matrix product. ``einsum`` multiplies each tap's pixels by its
weight and sums the products, in one loop over adjacent pixels.

An FFT would be slower for the usual 3×3 filters, and would spread a NaN over the whole image. Only ``conv_winograd``
can be faster; the plan chooses it if its estimated cost is lower.
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

_MIN_FLOPS = 1 << 23
"""minimum flops of a tile, about 0.1 ms on one core, several times the cost of passing a tile to another thread; an
eighth of this if there is no matrix product"""
_MIN_TILES = 4
"""minimum number of tiles; several tiles give several threads work, even if everything would fit into one tile"""
_MIN_FILTERS = 64
"""minimum number of the result's channels in a tile"""
_MAX_SHIFTED_CHANNELS = 128
"""maximum number of channels for the method *shifted*; with more, packing filters takes as long as gathering windows"""
_ROWS = TILE_BYTES
"""maximum bytes of a depthwise result computed at once"""
_MIN_RUN = 1024
"""minimum number of elements for an efficient NumPy inner loop"""
_MAX_SHORT_ROW = 12
"""maximum length of a window's row for which gathering tap by tap is faster"""
_BLOCK = 8 * TILE_BYTES
"""bytes of gathered windows in a tile, more than for elementwise tiles, because products with few rows are slow"""


def pack(filters: Array, groups: int) -> Array:
    """Pack filters (O, C / groups, h, w) as matrices (groups, h · w · C / groups, O / groups)."""
    o, c, h, w = filters.shape
    # taps come before channels, as in gathered windows
    taps_first = filters.reshape(groups, o // groups, c, h, w).transpose(0, 3, 4, 2, 1)
    return np.ascontiguousarray(taps_first).reshape(groups, h * w * c, o // groups)


class ConvForwardPlan(NamedTuple):
    """Tiling of a convolution for operands of given shapes."""

    window: Window
    groups: int
    images: Shape
    """(N, C, H, W)"""
    filters: Shape
    """(O, C / groups, h, w)"""

    @property
    def depthwise(self) -> bool:
        """Whether each channel has its own filter."""
        return self.groups > 1 and self.filters[:2] == (self.groups, 1)

    @property
    def result(self) -> Shape:
        """(N, O, H′, W′)"""
        return self.images[0], self.filters[0], *self.window.output(*self.images[2:])

    def indices(self, itemsize: int) -> list[Index]:
        """Return the tiles' indices into the result; they depend only on shapes."""
        n, o, rows, width = self.result
        images, filters, bands = self._counts(itemsize)
        return [
            (image, part, band, slice(0, width))
            for image in slices(n, images)
            for part in slices(o, filters)
            for band in slices(rows, bands)
        ]

    def _counts(self, itemsize: int) -> tuple[int, int, int]:
        n, o, rows, width = self.result
        depth = math.prod(self.filters[1:])
        flops = 2 * n * rows * width * depth * o
        tile_count = min(_MIN_TILES, max(1, flops // (_MIN_FLOPS // 8 if self.depthwise else _MIN_FLOPS)))
        # scratch elements per pixel of the result: a gathered window, or rows of a product and their copy, whichever is
        # larger
        elements_per_pixel = 4 * o if self.depthwise else max(depth * self.groups, 2 * o)
        if self._is_shifted:
            # the pixel's channels, and for each filter one product per tap and their sum
            elements_per_pixel = depth // math.prod(self.window.size) + (math.prod(self.window.size) + 1) * o
        row_bytes = width * itemsize * elements_per_pixel
        if self.groups == 1 and n * rows * width < o >= 2 * _MIN_FILTERS:
            # the filters are the larger operand, so each tile reads its own filters
            return 1, count(o, max(_MIN_FILTERS, -(-o // tile_count))), 1
        block = max(1, min(_BLOCK // max(1, row_bytes), -(-n * rows // tile_count)))
        if block < rows:
            return count(n, 1), 1, count(rows, block)
        return count(n, block // max(1, rows)), 1, 1

    def workspace(self, itemsize: int, spread: bool = False) -> int:
        """Return the number of bytes of scratch memory that the largest tile needs.

        More memory is needed if the result's pixels are not adjacent (``spread``).
        """
        if not math.prod(self.result):
            return 0
        n, o, height, width = self.result
        parts = self._counts(itemsize)
        images, filters, rows = [longest(size, part) for size, part in zip((n, o, height), parts, strict=True)]
        # 1×1 windows are read in place unless the result's pixels are spread, as in a phase of a gradient
        slab = 0 if self._pointwise and not spread else math.prod(self._unfolding.slab(images, rows))
        windows = images * rows * width
        if self.depthwise:
            # memory for the sums, if the result has another layout; half-precision sums are float32
            block = images * min(rows, self._rows_together(images, itemsize)) * width * o
            return slab * itemsize + block * max(itemsize, 4)
        if self._is_shifted:
            products = slab // self.images[1] * math.prod(self.window.size) * filters
            packed = 2 * math.prod(self.filters)  # the filters and their transposed copy
            return (slab + products + windows * filters + packed) * itemsize
        columns = windows * math.prod(self.filters[1:]) * self.groups * (slab > 0 or self.groups > 1)
        elements = slab + columns + (windows * filters if spread or self.groups > 1 else 0)
        return elements * itemsize

    def tiles(self, out: Array, images: Array, packed: Array) -> list[Tile]:
        """Return the tiles that compute the convolution and write it into ``out``.

        ``packed`` is the result of ``pack``. All views are created here, so that running a tile costs little
        interpreter time.
        """
        if not (images.size and packed.size):  # an empty sum
            return [Tile(tuple([slice(0, size) for size in out.shape]), lambda: out.fill(0))]
        window, images = drop_skipped_pixels(self.window, images)
        return self._replace(window=window, images=images.shape)._pieces(out, images, packed)

    def _pieces(self, out: Array, images: Array, packed: Array) -> list[Tile]:
        make = self._depthwise if self.depthwise else self._grouped if self.groups > 1 else self._product
        if self._is_shifted:
            make = self._shifted
        if self.depthwise:
            # channels come last, as in gathered windows; the weights are repeated for each pixel of a run
            packed = np.ascontiguousarray(packed.reshape(self.groups, *self.window.size).transpose(1, 2, 0))
            packed = np.tile(packed, self._pixels_together)
        return [Tile(index, make(out, images, packed, index)) for index in self.indices(images.itemsize)]

    # -- one tile --------------------------------------------------------------------------------------------------

    def _product(self, out: Array, images: Array, packed: Array, index: Index) -> Callable[[], None]:
        n, o, rows, _ = index
        # one group; do not slice if all filters are used, because BLAS is faster if rows are adjacent
        matrix = packed[0] if o.stop - o.start == packed.shape[2] else packed[0, :, o]
        result_part = out.transpose(0, 2, 3, 1)[n, rows, :, o]
        source = pixels(images.transpose(0, 2, 3, 1)[n, rows]) if self._pointwise else None
        into = pixels(result_part)
        if into is not None and source is not None:
            if len(into) == len(source):
                return partial(_multiply, source, matrix, into)
            # only one of the two arrays is contiguous across images, so process both image by image
            per_image = len(result_part), -1
            return partial(
                _multiply,
                source.reshape(*per_image, source.shape[2], copy=False),
                matrix,
                into.reshape(*per_image, into.shape[2], copy=False),
            )
        shape = self._unfolding.windows(n.stop - n.start, rows.stop - rows.start)
        order = (3, 4, 5, 0, 1, 2) if self._by_tap else (0, 1, 2, 3, 4, 5)
        scratch_types: tuple[tuple[Shape, Any], ...] = ((tuple([shape[axis] for axis in order]), images.dtype),)
        if into is None:
            # BLAS cannot write rows with gaps, as in results with channels first, so write the product to scratch
            # memory and copy it
            scratch_types = *scratch_types, (result_part.shape, out.dtype)
        parts, depth = 1 if into is None else len(into), matrix.shape[0]
        flat, transposition = ((depth, parts, -1), (1, 2, 0)) if self._by_tap else ((parts, -1, depth), (0, 1, 2))

        def views(columns: Array, *products: Array) -> tuple[Array, ...]:
            return columns, columns.reshape(flat).transpose(transposition), *products

        gather = self._unfolding.gathering(images, n, rows, flat, scratch_types, views)

        def compute() -> None:
            windows, columns, rows, *products = gather()
            np.copyto(columns, windows.transpose(order))
            if into is not None:
                _multiply(rows, matrix, into)
            else:
                (product,) = products
                np.matmul(rows[0], matrix, product.reshape(-1, product.shape[3]))
                np.copyto(result_part, product)

        return compute

    def _shifted(self, out: Array, images: Array, packed: Array, index: Index) -> Callable[[], None]:
        """Return a function that multiplies every pixel by every tap and sums the shifted products."""
        n, _, rows, _ = index
        (h, w), (row_step, column_step) = self.window.size, self.window.dilation
        o, c = self.filters[:2]
        height, width = rows.stop - rows.start, self.result[3]
        # windows of one pixel, extended by the filter's extent beyond its first tap
        points = Im2col(self.window._replace(size=(1, 1), dilation=(1, 1)), width + column_step * (w - 1), c)
        reach = slice(rows.start, rows.stop + row_step * (h - 1))
        shape = points.windows(n.stop - n.start, reach.stop - reach.start)[:3]
        matrix = packed.reshape(h * w, c, o).transpose(0, 2, 1).reshape(-1, c)
        into = out.transpose(1, 0, 2, 3)[:, n, rows]
        scratch_types = ((h, w, o, *shape), out.dtype), (into.shape, out.dtype)

        def views(products: Array, total: Array) -> tuple[Array, ...]:
            shifted = [
                products[i, j, :, :, i * row_step : i * row_step + height, j * column_step : j * column_step + width]
                for i in range(h)
                for j in range(w)
            ]
            return products.reshape(len(matrix), -1), total, *shifted

        gather = points.gathering(images, n, reach, (self.window, height), scratch_types, views)

        def compute() -> None:
            windows, products, total, first, second, *others = gather()
            np.matmul(matrix, windows.reshape(-1, c).T, products)
            # add in a fixed order, so that the result does not depend on threads; there are at least two taps
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
        scratch_types = (
            ((self.groups, *shape[:5], depth), images.dtype),
            ((self.groups, count, filters_of_group), out.dtype),
        )

        def views(columns: Array, products: Array) -> tuple[Array, ...]:
            flat = columns.reshape(self.groups, count, -1)
            return (
                columns,
                flat,
                products,
                products.reshape(self.groups, *shape[:3], filters_of_group).transpose(1, 2, 3, 0, 4),
            )

        gather = self._unfolding.gathering(images, n, rows, filters_of_group, scratch_types, views)

        def compute() -> None:
            windows, columns, flat, products, result = gather()
            np.copyto(columns, split_groups(windows, self.groups))
            np.matmul(flat, packed, products)
            np.copyto(into, result)

        return compute

    def _depthwise(self, out: Array, images: Array, taps: Array, index: Index) -> Callable[[], None]:
        n, _, rows, _ = index
        into = out.transpose(0, 2, 3, 1)[n, rows]
        # half precision is summed in float32, as in matrix products
        halves = out.dtype.itemsize == 2 and out.dtype.kind not in "iu"
        dtype = np.result_type(out.dtype, np.float32) if halves else out.dtype
        direct = _rows_of_elements(into) if dtype == out.dtype else None
        together = self._rows_together(len(into), images.itemsize)
        blocks = [slice(start, start + together) for start in range(0, into.shape[1], together)]
        shape = len(into), min(together, into.shape[1]), *into.shape[2:]
        scratch_types: tuple[tuple[Shape, Any], ...] = () if direct is not None else ((shape, dtype),)

        def views(*sums: Array) -> tuple[Array, ...]:
            return sums

        gather = self._unfolding.gathering(images, n, rows, None, scratch_types, views)

        def add_taps(windows: Array, sums: Array) -> None:
            # add in a fixed order, so that the result does not depend on threads and tiles
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
        return max(1, _ROWS // max(1, images * self.result[3] * self.groups * itemsize))

    @property
    def _pixels_together(self) -> int:
        """Pixels in one inner loop: the smallest divisor of the row's length for which the loop is long enough."""
        width = self.result[3]
        if self.window.strides[1] != 1:
            return 1
        return next((part for part in range(1, width) if not width % part and part * self.groups >= _MIN_RUN), width)

    @property
    def _pointwise(self) -> bool:
        return self.window[:3] == ((1, 1), (1, 1), ((0, 0), (0, 0)))

    @property
    def _is_shifted(self) -> bool:
        """Whether there are so few filters that the windows would need more memory than the products."""
        several = self.window.strides == (1, 1) and self.window.size != (1, 1)
        # a pixel's products have h · w · O elements, at most a quarter of its window's h · w · C elements
        return several and self.groups == 1 and 4 * self.filters[0] <= min(self.filters[1], _MAX_SHIFTED_CHANNELS)

    @property
    def _by_tap(self) -> bool:
        """Whether windows are gathered tap by tap, because their rows are short."""
        return self.window.size[1] * self.images[1] <= _MAX_SHORT_ROW

    @property
    def _unfolding(self) -> Im2col:
        return Im2col(self.window, self.result[3], self.images[1])


def _runs(windows: Array, together: int) -> Array:
    """View windows (N, rows, W′, h, w, C) as (N, rows, runs, pixels · C, h, w).

    A run has ``together`` pixels, or one if there are gaps between pixels.
    """
    n, rows, width, h, w, channels = windows.shape
    if windows.strides[2] != channels * windows.strides[5]:
        together = 1
    pixels_before_taps = windows.transpose(0, 1, 2, 5, 3, 4)
    return pixels_before_taps.reshape(n, rows, width // together, together * channels, h, w, copy=False)


def _rows_of_elements(pixels: Array) -> Array | None:
    """View pixels (N, H, W, C) as (N, H, W · C); return None if this needs a copy."""
    n, h, w, c = pixels.shape
    adjacent = pixels.strides[3] == pixels.itemsize and (w == 1 or pixels.strides[2] == c * pixels.itemsize)
    return pixels.reshape(n, h, w * c, copy=False) if adjacent else None


def _multiply(pixels: Array, matrix: Array, into: Array) -> None:
    for rows, out in zip(pixels, into, strict=True):
        np.matmul(rows, matrix, out)
