"""Elementwise operations that a C function computes on each tile of a product, while the tile is in the cache."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from explorer.core.ir.expr import Expr
from explorer.core.ir.tiles import Index
from explorer.core.types.tensor_type import Array, Shape
from explorer.plan.codegen.kernel_code import KernelCode
from explorer.run.native.library import Library
from explorer.run.native.native_call import address_of, native_call
from explorer.run.native.native_kernel import arranged


class NativeEpilogue:
    """C function of the operations after a product, in the memory order ``order`` of their result."""

    def __init__(self, code: KernelCode, library: Library, order: Sequence[int]) -> None:
        self._code, self._library, self._order = code, library, order

    def __call__(
        self, array_of: Callable[[Expr], Array], out: Array
    ) -> tuple[Callable[[Index], list[Callable[[], None]]], bool] | None:
        """Return a function that returns the calls for a tile of ``out``, and whether they read a copy of an operand.

        ``array_of`` returns the values of operands and of the product. Operands in another memory layout than the code
        requires are copied. Returns None if the function could not be compiled, or the result has another layout.
        """
        function = self._library.functions.get(self._code.name)
        if function is None or arranged(out, self._code.strides[-1]) is not out:
            return None
        inputs = [array_of(read) for read in self._code.reads]
        arrays = [arranged(array, strides) for array, strides in zip(inputs, self._code.strides, strict=False)]
        copies = [array for array, given in zip(arrays, inputs, strict=True) if array is not given]
        addresses = [address_of(array) for array in (*arrays, out)]

        def calls(index: Index) -> list[Callable[[], None]]:
            rows, part = tile_rows(index, out.shape, self._order)
            bounds = (ctypes.c_int64 * 2)(*part)
            passed = (ctypes.c_void_p * (len(addresses) + 1))(*addresses, ctypes.addressof(bounds))
            return [native_call(function, passed, row, (bounds, copies)) for row in rows]

        return calls, bool(copies)


def tile_rows(index: Index, shape: Shape, order: Sequence[int]) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    """Return the rows (start, stop) of a tile, and the first and last element of its part of each row.

    A row consists of the elements along the last axis in ``order`` that is longer than one. ``index`` has a slice for
    each of the first axes, whose elements are adjacent.
    """
    if any(part.step not in (None, 1) for part in index):
        raise ValueError(f"a compiled loop requires tiles of adjacent elements, not {index}")
    bounds = {
        axis: part.indices(size)[:2] for axis, (part, size) in enumerate(zip(index, shape, strict=False)) if size > 1
    }
    axes = [axis for axis in order if shape[axis] > 1]
    if not axes:
        return [(0, 1)], (0, 1)
    *outer, last = [(*bounds.get(axis, (0, shape[axis])), shape[axis]) for axis in axes]
    # adjacent rows are one range: along trailing axes that the tile covers, and the axis before them
    step, covered = 1, 0
    while covered < len(outer) and outer[-1 - covered][:2] == (0, outer[-1 - covered][2]):
        step *= outer[-1 - covered][2]
        covered += 1
    outer = outer[: len(outer) - covered]
    if not outer:
        return [(0, step)], last[:2]
    start, stop, size = outer.pop()
    before = [0]
    for first, end, length in outer:
        before = [row * length + position for row in before for position in range(first, end)]
    return [((row * size + start) * step, (row * size + stop) * step) for row in before], last[:2]
