"""Winograd's minimal filtering F(2×2, 3×3): 16 instead of 36 products per 2×2 tile and pair of channels.

Source: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, 2015.

A tile of 2×2 results of a 3×3 filter depends on 4×4 pixels. Fixed matrices of 0, ±1 and ±½ transform the pixels and the
filter into 16 numbers each. These are multiplied, the products are summed over channels, and the sums are transformed
back: Y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A. G is ``_FILTERS``; ``_differences`` computes Bᵀ, and ``_first`` and ``_second``
compute Aᵀ. This needs 16 matrix products (tiles, C) × (C, O) instead of 36, but the transforms read and write more
memory. The plan replaces ``Conv2d`` with ``WinogradConv2d`` if this is estimated to be cheaper.

F(4×4, 3×3) would save more products, but its matrices contain 4, 5 and 8, which lose more digits in single precision.
Because ∞ − ∞ is NaN, a NaN or ∞ affects all four results of its tile, not only those whose windows contain it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np

from explorer.core.ir.operation_examples import Example, real
from explorer.core.ir.tiles import TILE_BYTES, Index, Tile, count, longest, scratch, slices
from explorer.core.types.custom_dtypes import is_floating
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType
from explorer.ops.nn.conv import Conv2d
from explorer.ops.nn.kernels.im2col import padded

_FILTERS = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
"""matrix (4, 3) that multiplies a filter from both sides"""
_BLOCK = 8 * TILE_BYTES
"""bytes of scratch memory for each tile, more than for elementwise tiles, because products with few rows are slow"""
_MIN_TILES = 4
"""minimum number of tiles; several tiles give several threads work, even if everything would fit into one tile"""


def _tiles(length: int) -> int:
    return -(-length // 2)  # for an odd length, the last tile computes one row or column too many


class WinogradConv2d(Conv2d):
    """Convolution with 3×3 filters and stride 1, computed in tiles of 2×2 pixels.

    Results are rounded differently from those of ``Conv2d``, because they are computed from differences of pixels.
    """

    packed_operand: ClassVar[int] = 1
    policies = ()
    examples: ClassVar[tuple[Example, ...]] = (
        Example(real(2, 3, 5, 5), real(4, 3, 3, 3), padding=((1, 1), (1, 1))),
        Example(real(1, 2, 6, 4), real(3, 2, 3, 3), padding=((0, 2), (1, 0))),
    )

    def infer(self, images: TensorType, filters: TensorType) -> TensorType:
        result_type = super().infer(images, filters)
        problem = self.unfit(images.shape, filters.shape)
        if problem or not is_floating(result_type.dtype):
            raise self.refuse(
                (images, filters), f"elements must be real; {problem}" if problem else "elements must be real"
            )
        return result_type

    def unfit(self, images: Shape, filters: Shape) -> str:
        """Return the rule that the shapes or the attributes violate, or ""."""
        if filters[2:] != (3, 3):
            return "filters must be 3×3"
        if self.strides != (1, 1) or self.dilation != (1, 1):
            return "strides and dilation must be 1"
        return "" if self.groups == 1 else "groups must be 1"

    def workspace(self, images: TensorType, filters: TensorType) -> int:
        type_ = self.infer(images, filters)
        shape = type_.shape
        if not math.prod(shape) or not images.size:
            return 0
        image_parts, band_parts = _counts(shape, images.shape[1], type_.dtype.itemsize)
        n, rows = longest(shape[0], image_parts), min(2 * longest(_tiles(shape[2]), band_parts), shape[2])
        shapes = _memory(n, _tiles(rows), _tiles(shape[3]), images.shape[1], shape[1])
        return sum([math.prod(part) for part in shapes]) * type_.dtype.itemsize

    def pack_operand(self, filters: Array) -> Array:
        dtype = np.result_type(filters.dtype)
        # compute in double precision, so that the transformed weights are rounded only once
        transformed = np.einsum("ia,ocab,jb->ijco", _FILTERS, filters.astype(np.float64), _FILTERS, optimize=True)
        return np.ascontiguousarray(transformed.astype(dtype)).reshape(16, *filters.shape[1::-1])

    def tiles(self, out: Array, prepared: Array, images: Array, filters: Array) -> list[Tile]:
        if not (images.size and out.size):  # an empty sum
            return [Tile(tuple([slice(0, size) for size in out.shape]), lambda: out.fill(0))]
        top, left = self.padding[0][0], self.padding[1][0]

        def piece(index: Index) -> Tile:
            return Tile(index, _tile_function(out, images, prepared, index, top, left))

        return [piece(index) for index in _indices(out.shape, images.shape[1], out.itemsize)]

    def flops(self, result: AnyType, *types: TensorType) -> int:
        assert isinstance(result, TensorType)
        n, o, rows, width = result.shape
        c = types[0].shape[1]
        return n * _tiles(rows) * _tiles(width) * (32 * c * o + 32 * c + 24 * o)


def _indices(shape: Shape, channels: int, itemsize: int) -> list[Index]:
    """Return the indices of the parts of a result of ``shape`` (N, O, H′, W′); each part consists of whole tiles."""
    n, o, rows, width = shape
    image_parts, band_parts = _counts(shape, channels, itemsize)
    return [
        (images, slice(0, o), slice(2 * band.start, min(rows, 2 * band.stop)), slice(0, width))
        for images in slices(n, image_parts)
        for band in slices(_tiles(rows), band_parts)
    ]


def _counts(shape: Shape, channels: int, itemsize: int) -> tuple[int, int]:
    n, o, rows, width = shape
    tile_rows, row_bytes = _tiles(rows), 16 * _tiles(width) * (channels + o) * itemsize
    # tile rows in a part, which consists of whole images if they fit, otherwise of rows of one image
    block = max(1, min(_BLOCK // row_bytes, -(-n * tile_rows // _MIN_TILES)))
    return (count(n, block // tile_rows), 1) if block >= tile_rows else (count(n, 1), count(tile_rows, block))


def _memory(n: int, tile_rows: int, tile_columns: int, channels: int, filters: int) -> tuple[Shape, ...]:
    """Return the shapes of the scratch arrays for one part.

    The arrays contain the padded pixels, the differences of rows, the differences of rows and columns, the products,
    and the sums over rows.
    """
    tiles = n * tile_rows * tile_columns
    return (
        (n, 2 * tile_rows + 2, 2 * tile_columns + 2, channels),
        (4, n, tile_rows, 2 * tile_columns + 2, channels),
        (4, 4, n, tile_rows, tile_columns, channels),
        (4, 4, tiles, filters),
        (2, 4, tiles, filters),
    )


class _Scratch(NamedTuple):
    """Views of the scratch memory for one part, in the order in which the computation uses them."""

    slab: Array
    before: list[tuple[np.ufunc, Array, Array, Array]]
    """sums and differences computed before the products"""
    pixels: Array
    products: Array
    after: list[tuple[np.ufunc, Array, Array, Array]]
    """sums over the rows of products"""
    tiles: Array


def _views(slab: Array, by_row: Array, by_both: Array, products: Array, sums: Array) -> _Scratch:
    _, n, tile_rows, tile_columns, _ = by_both.shape[1:]
    rows = [slab[:, i : i + 2 * tile_rows : 2] for i in range(4)]
    columns = [by_row[:, :, :, i : i + 2 * tile_columns : 2] for i in range(4)]
    return _Scratch(
        slab,
        _differences(rows, [*by_row]) + _differences(columns, [by_both[:, i] for i in range(4)]),
        by_both.reshape(16, -1, by_both.shape[-1]),
        products.reshape(16, -1, products.shape[-1]),
        _first([*products], sums[0]) + _second([*products], sums[1]),
        sums.reshape(2, 4, n, tile_rows, tile_columns, -1),
    )


def _tile_function(out: Array, images: Array, filters: Array, index: Index, top: int, left: int) -> Callable[[], None]:
    n, _, rows, columns = index
    count, tile_rows, tile_columns = n.stop - n.start, _tiles(rows.stop - rows.start), _tiles(columns.stop)
    shapes = tuple([(shape, out.dtype) for shape in _memory(count, tile_rows, tile_columns, *filters.shape[1:])])
    copies, zeros = padded(shapes[0][0], images.transpose(0, 2, 3, 1)[n], rows.start - top, -left)
    into = out.transpose(0, 2, 3, 1)[n, rows]
    # the four results of each tile are in even and odd rows and columns
    parts = [[into[:, row::2, column::2] for column in (0, 1)] for row in (0, 1)]

    def compute() -> None:
        memory = scratch(shapes, shapes, _views)
        for region in zeros:
            memory.slab[region] = 0
        for region, source in copies:
            memory.slab[region] = source
        for step, a, b, c in memory.before:
            step(a, b, c)
        np.matmul(memory.pixels, filters, memory.products)
        for step, a, b, c in memory.after:
            step(a, b, c)
        for tiles, (even_columns, odd_columns) in zip(memory.tiles, parts, strict=True):
            # an odd length has one odd row or column fewer, so drop the surplus results of the last tiles
            last = [*tiles[:, :, : even_columns.shape[1]]]
            shorter = [each[:, :, : odd_columns.shape[2]] for each in last]
            for step, a, b, c in _first(last, even_columns) + _second(shorter, odd_columns):
                step(a, b, c)

    return compute


_Steps: TypeAlias = list[tuple[np.ufunc, Array, Array, Array]]


def _differences(d: list[Array], into: list[Array]) -> _Steps:
    return [
        (np.subtract, d[0], d[2], into[0]),
        (np.add, d[1], d[2], into[1]),
        (np.subtract, d[2], d[1], into[2]),
        (np.subtract, d[1], d[3], into[3]),
    ]


def _first(m: list[Array], into: Array) -> _Steps:
    return [(np.add, m[0], m[1], into), (np.add, into, m[2], into)]


def _second(m: list[Array], into: Array) -> _Steps:
    return [(np.subtract, m[1], m[2], into), (np.subtract, into, m[3], into)]
