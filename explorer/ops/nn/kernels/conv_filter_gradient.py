"""Kernel of ``Conv2dFilterGradient``: sums of products of upstream pixels and windows.

Windows are gathered block by block into the thread's scratch memory. The blocks' sums are added in a fixed order, so
the result does not depend on the number of threads.

The gradient for one tap is a matrix product over all pixels of all images: (O, N · H′ · W′) × (N · H′ · W′, C). Its
result is small, and its sums are long. Dividing the sums among threads would need a copy of the result per thread, so
tiles divide the filters instead (output channels, input channels, rows of taps), and each tile computes complete sums.
1×1 windows are the images themselves and are multiplied in place. For depthwise filters there is no matrix product, so
``einsum`` computes the sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from explorer.core.ir.tiles import TILE_BYTES, Index, Tile, even
from explorer.core.types.tensor_type import Array, Shape
from explorer.ops.nn.kernels.im2col import Im2col, drop_skipped_pixels, pixels, split_groups
from explorer.ops.nn.kernels.window import Window

_MIN_FLOPS = 1 << 23
"""minimum flops of a tile; an eighth of this if there is no matrix product"""
_MIN_TILES = 4
"""minimum number of tiles; several tiles give several threads work, even if everything would fit into one tile"""
_CHANNELS = 16
"""minimum numbers of channels and filters in a tile, because products of thinner matrices are slower"""
_PIXELS = 32
"""minimum number of pixels for which each of several non-contiguous images gets its own product"""
_BLOCK = 8 * TILE_BYTES
"""bytes of gathered windows that are summed at a time"""
_Block: TypeAlias = tuple[slice, slice]
"""slices of images and of rows of windows"""


class FilterGradient(NamedTuple):
    """Tiling of the adjoint of convolution for filters."""

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
    def upstream(self) -> Shape:
        """(N, O, H′, W′)"""
        return self.images[0], self.filters[0], *self.window.output(*self.images[2:])

    def indices(self) -> list[Index]:
        """Return the tiles' indices into the result (O, C / groups, h, w)."""
        o, c, h, w = self.filters
        # tiles do not depend on the number of cores, so that rounding is the same on every machine
        flops = 2 * math.prod(self.upstream) * math.prod(self.filters[1:])
        max_tiles = min(_MIN_TILES, max(1, flops // (_MIN_FLOPS // 8 if self.depthwise else _MIN_FLOPS)))
        if self.groups > 1:
            least = min(2 * _CHANNELS if self.depthwise else 1, self.groups)
            parts = even(self.groups, max(least, -(-self.groups // max_tiles)))
            rows = even(h, 1 if self.depthwise and len(parts) < max_tiles else h)
            groups = [slice(part.start * (o // self.groups), part.stop * (o // self.groups)) for part in parts]
            return [(part, slice(0, c), row, slice(0, w)) for part in groups for row in rows]
        sizes, counts, least_sizes = (o, c, h), [1, 1, 1], (_CHANNELS, _CHANNELS, 1)
        while math.prod(counts) < max_tiles:
            # divide input channels and rows of taps first, because tiles that divide only output channels gather the
            # same windows
            divisible = [axis for axis in (1, 2, 0) if sizes[axis] >= 2 * counts[axis] * least_sizes[axis]]
            if not divisible:
                break
            # 1×1 windows are not gathered, so divide the larger axis: products of square matrices are faster
            counts[divisible[0] if h * w > 1 else max(divisible, key=lambda axis: sizes[axis] // counts[axis])] *= 2
        filters, channels, rows = [even(size, -(-size // count)) for size, count in zip(sizes, counts, strict=True)]
        return [(part, channel, row, slice(0, w)) for part in filters for channel in channels for row in rows]

    def workspace(self, itemsize: int) -> int:
        """Return the number of bytes of scratch memory that the largest tile needs."""
        if not (math.prod(self.upstream) and math.prod(self.images)):
            return 0
        return max([self._scratch_bytes(index, itemsize) for index in self.indices()])

    def _scratch_bytes(self, index: Index, itemsize: int) -> int:
        o, c, i, _ = index
        part = self._part(index)
        n, rows = [
            max([s.stop - s.start for s in side]) for side in zip(*self._blocks(part.unfolding, itemsize), strict=True)
        ]
        filters: int = o.stop - o.start
        product: int = filters * (c.stop - c.start) * (i.stop - i.start) * self.filters[3]
        if self.depthwise:
            return product * itemsize
        if self._pointwise and math.prod(self.upstream[2:]) >= _PIXELS:
            return 2 * product * itemsize
        copied: int = n * rows * part.unfolding.columns * filters * (n > 1)
        gathered = math.prod(part.unfolding.windows(n, rows)) + math.prod(part.unfolding.slab(n, rows))
        return (gathered + copied + product) * itemsize

    def pieces(self, out: Array, upstream: Array, images: Array) -> list[Tile]:
        """Return the tiles that compute the gradient and write it into ``out``."""
        if not (upstream.size and images.size):  # an empty sum
            return [Tile(tuple([slice(0, size) for size in out.shape]), partial(out.fill, 0))]
        window, images = drop_skipped_pixels(self.window, images)
        plain = self._replace(window=window, images=images.shape)
        make = plain._depthwise if plain.depthwise else plain._product
        return [Tile(index, make(out, upstream, images, index)) for index in plain.indices()]

    # -- one tile --------------------------------------------------------------------------------------------------

    def _part(self, index: Index) -> _Part:
        o, c, i, _ = index
        filters_of_group = self.filters[0] // self.groups
        groups = (o.stop - o.start) // filters_of_group if self.groups > 1 else 1
        first = o.start // filters_of_group * self.filters[1] if self.groups > 1 else 0
        channels = slice(first + c.start, first + c.stop + (groups - 1) * self.filters[1])
        (top, bottom), sides = self.window.padding
        window = self.window._replace(
            size=(i.stop - i.start, self.window.size[1]),
            # if the taps begin at row i.start, their windows begin i.start dilated rows lower
            padding=((top - i.start * self.window.dilation[0], bottom), sides),
        )
        return _Part(groups, channels, Im2col(window, self.upstream[3], channels.stop - channels.start))

    def _blocks(self, unfolding: Im2col, itemsize: int) -> list[_Block]:
        """Return the blocks of images and rows of windows that are summed one after the other."""
        n, _, rows, _ = self.upstream
        block = max(1, _BLOCK // (math.prod(unfolding.windows(1, 1)) * itemsize))
        if block < rows:
            return [(image, part) for image in even(n, 1) for part in even(rows, block)]
        return [(part, slice(0, rows)) for part in even(n, block // rows)]

    def _product(self, out: Array, upstream: Array, images: Array, index: Index) -> Callable[[], None]:
        part = self._part(index)
        o, c, i, j = index
        shape = part.groups, (o.stop - o.start) // part.groups, c.stop - c.start, i.stop - i.start, j.stop
        # copy=False, because results are written through this view; channels come last, as in gathered windows
        into = out[index].reshape(shape, copy=False).transpose(0, 1, 3, 4, 2)
        outer, inner = upstream[:, o].transpose(0, 2, 3, 1), images[:, part.channels]
        operands = self._matrices(outer, inner.transpose(0, 2, 3, 1))
        if operands is not None:
            left, right = operands

            def multiply() -> None:
                # the first product initializes the result, and the other products are added to it
                np.copyto(into, np.matmul(left[0].T, right[0]).reshape(into.shape))
                for rows, others in zip(left[1:], right[1:], strict=True):
                    np.add(into, np.matmul(rows.T, others).reshape(into.shape), out=into)

            return multiply
        sums = [
            self._block_sum(outer, inner, part, block, into.shape, out.dtype)
            for block in self._blocks(part.unfolding, images.itemsize)
        ]

        def compute() -> None:
            np.copyto(into, sums[0]())
            for further in sums[1:]:
                np.add(into, further(), out=into)

        return compute

    @property
    def _pointwise(self) -> bool:
        return self.groups == 1 and self.window[:3] == ((1, 1), (1, 1), ((0, 0), (0, 0)))

    def _matrices(self, outer: Array, inner: Array) -> tuple[Array, Array] | None:
        """Return both operands as matrices if windows are single, evenly spaced pixels; otherwise return None.

        There is one pair of matrices for all images, or one pair for each image.
        """
        if not self._pointwise:
            return None
        left, right = pixels(outer), pixels(inner)
        if left is None or right is None:
            return None
        n = max(len(left), len(right))
        # many tiny products take longer than gathering all images for one product
        if n > 1 and math.prod(self.upstream[2:]) < _PIXELS:
            return None
        return left.reshape(n, -1, left.shape[2], copy=False), right.reshape(n, -1, right.shape[2], copy=False)

    def _block_sum(
        self, outer: Array, inner: Array, part: _Part, block: _Block, into: Shape, dtype: Any
    ) -> Callable[[], Array]:
        """Return a function that computes the sum for one block in scratch memory."""
        n, rows = block
        shape = part.unfolding.windows(n.stop - n.start, rows.stop - rows.start)
        count, groups = math.prod(shape[:3]), part.groups
        scratch_types: tuple[tuple[Shape, Any], ...] = (
            ((groups, *shape[:5], shape[5] // groups), inner.dtype),
            (into, dtype),
        )
        source = outer[n, rows]
        upstream_matrix = pixels(source)
        dense = upstream_matrix is not None and len(upstream_matrix) == 1
        if not dense:
            # the upstream pixels are not evenly spaced in memory, so they are copied to scratch memory too
            scratch_types = *scratch_types, (source.shape, outer.dtype)

        def matrices(rows: Array) -> Array:
            return rows.reshape(count, groups, -1, copy=False).transpose(1, 2, 0)

        def views(columns: Array, product: Array, *copied: Array) -> tuple[Array, ...]:
            flat = product.reshape(groups, into[1], -1)
            return columns, columns.reshape(groups, count, -1), product, flat, *copied, *map(matrices, copied)

        left = matrices(upstream_matrix) if upstream_matrix is not None and dense else None
        gather = part.unfolding.gathering(inner, n, rows, (into, dense), scratch_types, views)

        def compute() -> Array:
            windows, columns, flat, product, matrix, *copied = gather()
            np.copyto(columns, split_groups(windows, groups))
            if left is not None:
                np.matmul(left, flat, matrix)
            else:
                copy, transposed = copied
                np.copyto(copy, source)
                np.matmul(transposed, flat, matrix)
            return product

        return compute

    def _depthwise(self, out: Array, upstream: Array, images: Array, index: Index) -> Callable[[], None]:
        o, _, i, j = index
        columns = self.upstream[3]
        window, size = self.window, (self.images[2], self.images[3])
        outer, inner = upstream[:, o], images[:, o]
        taps: list[tuple[Array, list[tuple[Array, Array]]]] = []
        for row in range(i.start, i.stop):
            for column in range(j.stop):
                terms = []
                for images_, band in self._blocks(self._part(index).unfolding, images.itemsize):
                    windows, inside = window.overlap(row, column, size, band, columns)
                    terms.append((outer[images_, :, band][windows], inner[images_][inside]))
                taps.append((out[o, 0, row, column], terms))

        def compute() -> None:
            for into, terms in taps:
                into.fill(0)
                for gradient, pixel in terms:
                    into += np.einsum("ncyx,ncyx->c", gradient, pixel)

        return compute


class _Part(NamedTuple):
    groups: int
    channels: slice
    """channels of the images"""
    unfolding: Im2col
