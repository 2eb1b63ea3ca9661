"""Tiling of operations: facets of kernels that work on parts of a result, or on parts of the operands of a reduction.

Fused kernels run elementwise operations tile by tile, while a tile is in the cache, and several threads share the
tiles. Two kinds of operations take part. A kernel that can compute its result in parts (a product, a convolution, a
pooling) defines ``tiles``; elementwise operations on the result then run on each tile. A reduction declares the axes
that it combines; elementwise producers of its operands then run block by block, and each block is combined at once.

An operation without these facets is computed as a whole. They are inherited by ``Operation`` and stand apart from it,
because most operations leave all of them as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from explorer.core.ir.tiles import Tile


class Tiling:
    """Facets of tiled kernels; every default says that the operation has no tiles and reduces nothing."""

    packed_operand: ClassVar[int | None] = None
    """index of the operand that the kernel first packs into another layout, which is worth keeping if it is constant"""

    # ``**_: Any`` after ``*args: Any`` tells type checkers that subclasses name their own operands.

    def pack_operand(self, operand: Any) -> Any:
        """Pack the operand number ``packed_operand`` for the kernel; a program keeps the packed form of a constant."""
        raise NotImplementedError

    def tiles(self, out: Any, prepared: Any, *operands: Any, **_: Any) -> list[Tile]:
        """Return the tiles of the result in ``out``; ``prepared`` is None if the operation packs no operand."""
        raise NotImplementedError

    @property
    def is_tileable(self) -> bool:
        """Whether the result can be computed in tiles."""
        return type(self).tiles is not Tiling.tiles

    @property
    def reduced_axes(self) -> tuple[int, ...] | None:
        """Axes along which the operands' elements are combined, or None if the operation does not reduce.

        The operands all have one shape. The other axes are independent: the kernel accepts any part of the operands
        that contains the reduced axes whole.
        """
        return None

    @property
    def combine_ufunc(self) -> np.ufunc | None:
        """Ufunc that combines the partial results of a row, or None if the kernel needs whole rows."""
        return None

    def partial_dtype(self, result: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of partial results: single precision for half, in which they would overflow."""
        return np.dtype(np.float32) if result == np.float16 else result

    def partial_reduce(self, out: Any, x: Any, axes: tuple[int, ...]) -> Any:
        """Reduce parts of rows along ``axes`` into ``out``, in which these axes have size 1."""
        raise NotImplementedError

    def finalize(self, out: Any, joined: Any, count: int) -> Any:
        """Compute the result into ``out`` from the combined partial results of each row of ``count`` elements."""
        np.copyto(out, joined)
        return out
