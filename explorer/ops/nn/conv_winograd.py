"""Winograd's minimal filtering F(2×2, 3×3): 16 products a tile of four pixels and a pair of channels, instead of 36.

Source: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, 2015.

Four neighbouring results of a 3×3 filter read 4×4 pixels. Transformed by fixed matrices of 0, ±1 and ±½, pixels and
filters become 16 numbers each; their products, summed over channels and transformed back, are the four results. Y = Aᵀ
[(G g Gᵀ) ⊙ (Bᵀ d B)] A, where G is ``_FILTERS``, Bᵀ is written out in ``_differences``, and Aᵀ in ``_first`` and
``_second``. So 16 matrix products of (tiles, C) × (C, O) do the work of 36, at the price of two transforms that read
and write more memory; the plan weighs one against the other, and puts ``WinogradConv2d`` in place of a ``Conv2d``.

The larger F(4×4, 3×3) would save more products, but its matrices hold 4, 5 and 8, and lose more digits in single
precision. A NaN or ∞ in a tile reaches all four of its results, not only those whose windows hold it: ∞ − ∞ is NaN.
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
"""matrix that multiplies a filter from both sides, (4, 3)"""
_BLOCK = 8 * TILE_BYTES
"""bytes of scratch memory for a tile: more than elementwise tiles take, since products of few rows are slow"""
_PIECES = 4
"""least number of tiles, so that several threads find work even if everything fits into one"""


def _tiles(length: int) -> int:
    return -(-length // 2)  # the last of an odd length computes one row or column too many


class WinogradConv2d(Conv2d):
    """Convolution with 3×3 filters and stride 1, computed in tiles of 2×2 pixels.

    It rounds differently from Conv2d: each tile is a sum of differences of pixels.
    """

    packed_operand: ClassVar[int] = 1
    policies = ()
    examples: ClassVar[tuple[Example, ...]] = (
        Example(real(2, 3, 5, 5), real(4, 3, 3, 3), padding=((1, 1), (1, 1))),
        Example(real(1, 2, 6, 4), real(3, 2, 3, 3), padding=((0, 2), (1, 0))),
    )

    def infer(self, images: TensorType, filters: TensorType) -> TensorType:
        result_type = super().infer(images, filters)
        why = self.unfit(images.shape, filters.shape)
        if why or not is_floating(result_type.dtype):
            raise self.refuse((images, filters), f"numbers are real; {why}" if why else "numbers are real")
        return result_type

    def unfit(self, images: Shape, filters: Shape) -> str:
        """Return the rule that these shapes and attributes break, or ""."""
        if filters[2:] != (3, 3):
            return "filters are 3×3"
        if self.strides != (1, 1) or self.dilation != (1, 1):
            return "windows step by one pixel and lie close"
        return "" if self.groups == 1 else "every filter reads all channels"

    def workspace(self, images: TensorType, filters: TensorType) -> int:
        type_ = self.infer(images, filters)
        shape = type_.shape
        if not math.prod(shape) or not images.size:
            return 0
        many, bands = _counts(shape, images.shape[1], type_.dtype.itemsize)
        n, rows = longest(shape[0], many), min(2 * longest(_tiles(shape[2]), bands), shape[2])
        wanted = _memory(n, _tiles(rows), _tiles(shape[3]), images.shape[1], shape[1])
        return sum([math.prod(part) for part in wanted]) * type_.dtype.itemsize

    def pack_operand(self, filters: Array) -> Array:
        dtype = np.result_type(filters.dtype)
        # In double precision, so that a transformed weight is rounded once; it is used for every tile.
        transformed = np.einsum("ia,ocab,jb->ijco", _FILTERS, filters.astype(np.float64), _FILTERS, optimize=True)
        return np.ascontiguousarray(transformed.astype(dtype)).reshape(16, *filters.shape[1::-1])

    def tiles(self, out: Array, prepared: Array, images: Array, filters: Array) -> list[Tile]:
        if not (images.size and out.size):  # an empty sum
            return [Tile(tuple([slice(0, size) for size in out.shape]), lambda: out.fill(0))]
        top, left = self.padding[0][0], self.padding[1][0]

        def piece(index: Index) -> Tile:
            return Tile(index, _computing(out, images, prepared, index, top, left))

        return [piece(index) for index in _indices(out.shape, images.shape[1], out.itemsize)]

    def flops(self, result: AnyType, *types: TensorType) -> int:
        assert isinstance(result, TensorType)
        n, o, rows, across = result.shape
        c = types[0].shape[1]
        return n * _tiles(rows) * _tiles(across) * (32 * c * o + 32 * c + 24 * o)


def _indices(shape: Shape, channels: int, itemsize: int) -> list[Index]:
    """Cut the result (N, O, H′, W′) into parts of whole tiles."""
    n, o, rows, across = shape
    many, bands = _counts(shape, channels, itemsize)
    return [
        (images, slice(0, o), slice(2 * band.start, min(rows, 2 * band.stop)), slice(0, across))
        for images in slices(n, many)
        for band in slices(_tiles(rows), bands)
    ]


def _counts(shape: Shape, channels: int, itemsize: int) -> tuple[int, int]:
    """Return the number of parts that images and bands of tiles are cut into."""
    n, o, rows, across = shape
    bands, row_bytes = _tiles(rows), 16 * _tiles(across) * (channels + o) * itemsize
    # rows of tiles for each part: whole images if they fit, else bands of one image
    block = max(1, min(_BLOCK // row_bytes, -(-n * bands // _PIECES)))
    return (count(n, block // bands), 1) if block >= bands else (count(n, 1), count(bands, block))


def _memory(n: int, down: int, across: int, channels: int, filters: int) -> tuple[Shape, ...]:
    """Return the shapes of a part's scratch memory: padded pixels, differences of rows, of both, products, sums of
    rows."""
    tiles = n * down * across
    return (
        (n, 2 * down + 2, 2 * across + 2, channels),
        (4, n, down, 2 * across + 2, channels),
        (4, 4, n, down, across, channels),
        (4, 4, tiles, filters),
        (2, 4, tiles, filters),
    )


class _Room(NamedTuple):
    """Scratch memory of a part, as views for its steps."""

    slab: Array
    before: list[tuple[np.ufunc, Array, Array, Array]]
    """sums and differences before the products"""
    pixels: Array
    products: Array
    after: list[tuple[np.ufunc, Array, Array, Array]]
    """sums over the rows of products"""
    tiles: Array


def _room(slab: Array, by_row: Array, by_both: Array, products: Array, sums: Array) -> _Room:
    _, n, down, across, _ = by_both.shape[1:]
    rows = [slab[:, i : i + 2 * down : 2] for i in range(4)]
    columns = [by_row[:, :, :, i : i + 2 * across : 2] for i in range(4)]
    return _Room(
        slab,
        _differences(rows, [*by_row]) + _differences(columns, [by_both[:, i] for i in range(4)]),
        by_both.reshape(16, -1, by_both.shape[-1]),
        products.reshape(16, -1, products.shape[-1]),
        _first([*products], sums[0]) + _second([*products], sums[1]),
        sums.reshape(2, 4, n, down, across, -1),
    )


def _computing(out: Array, images: Array, filters: Array, index: Index, top: int, left: int) -> Callable[[], None]:
    n, _, rows, columns = index
    count, down, across = n.stop - n.start, _tiles(rows.stop - rows.start), _tiles(columns.stop)
    wanted = tuple([(shape, out.dtype) for shape in _memory(count, down, across, *filters.shape[1:])])
    copies, zeros = padded(wanted[0][0], images.transpose(0, 2, 3, 1)[n], rows.start - top, -left)
    into = out.transpose(0, 2, 3, 1)[n, rows]
    # the four results of each tile: even and odd rows, even and odd columns
    parts = [[into[:, row::2, column::2] for column in (0, 1)] for row in (0, 1)]

    def compute() -> None:
        room = scratch(wanted, wanted, _room)
        for place in zeros:
            room.slab[place] = 0
        for place, source in copies:
            room.slab[place] = source
        for step, a, b, c in room.before:
            step(a, b, c)
        np.matmul(room.pixels, filters, room.products)
        for step, a, b, c in room.after:
            step(a, b, c)
        for tiles, (even_columns, odd_columns) in zip(room.tiles, parts, strict=True):
            # an odd number of rows or columns has one odd one less: what the last tiles compute beyond it is dropped
            last = [*tiles[:, :, : even_columns.shape[1]]]
            shorter = [each[:, :, : odd_columns.shape[2]] for each in last]
            for step, a, b, c in _first(last, even_columns) + _second(shorter, odd_columns):
                step(a, b, c)

    return compute


_Steps: TypeAlias = list[tuple[np.ufunc, Array, Array, Array]]


def _differences(d: list[Array], into: list[Array]) -> _Steps:
    """Return the steps of Bᵀ d: (d₀ − d₂, d₁ + d₂, d₂ − d₁, d₁ − d₃)."""
    return [
        (np.subtract, d[0], d[2], into[0]),
        (np.add, d[1], d[2], into[1]),
        (np.subtract, d[2], d[1], into[2]),
        (np.subtract, d[1], d[3], into[3]),
    ]


def _first(m: list[Array], into: Array) -> _Steps:
    """Return the steps of the first row of Aᵀ m: m₀ + m₁ + m₂."""
    return [(np.add, m[0], m[1], into), (np.add, into, m[2], into)]


def _second(m: list[Array], into: Array) -> _Steps:
    """Return the steps of the second row of Aᵀ m: m₁ − m₂ − m₃."""
    return [(np.subtract, m[1], m[2], into), (np.subtract, into, m[3], into)]
