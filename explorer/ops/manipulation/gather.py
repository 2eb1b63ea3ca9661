"""Gather operations whose indices are operands: they select rows of a table or elements along an axis.

The indices' values are known only when the kernel runs, so their range is checked then. If they are known during
recording, ``slicing`` is used instead.

If an index occurs several times, the gradients of its gathered parts are added. Indices have no gradient. (ONNX:
Gather, GatherElements, GatherND; PNNX: torch.gather, torch.index_select, nn.Embedding, F.embedding.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.ir.operation_examples import Example, integers, real
from explorer.core.registry import public
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType, broadcast_shapes, normalize_axis
from explorer.ops.base import broadcast_to, reshape
from explorer.ops.manipulation.concat import Stack
from explorer.ops.manipulation.reshape import Movement, flatten, vector_of_scalar
from explorer.ops.manipulation.slicing import Index0

__all__ = ["embedding", "take", "take_along_axis"]


def checked_indices(indices: Array, length: int) -> Array:
    """Return ``indices`` with negative ones counted from the front; raise ValueError for an index out of range."""
    if not indices.size:
        return indices
    if indices.dtype.kind == "i" and indices.dtype.isnative:
        # the usual case needs one pass, because a negative index is a very large number when read as unsigned
        unsigned = indices.view(f"u{indices.dtype.itemsize}")
        if int(unsigned.max()) < min(length, np.iinfo(indices.dtype).max + 1):
            return indices
    # min and max allocate nothing, whereas elementwise comparisons would allocate two arrays. The limits are Python
    # ints, because −length may not fit an unsigned dtype.
    smallest, largest = int(indices.min()), int(indices.max())
    if smallest < -length or largest >= length:
        wrong = smallest if smallest < -length else largest
        raise ValueError(f"row {wrong} of a table with rows 0 … {length - 1}")
    if smallest >= 0:
        return indices
    # the indices' dtype may be too narrow for the length
    wide = indices.astype(np.int64, copy=False)
    return np.where(wide < 0, wide + length, wide)


def flat_indices(indices: Array, shape: Shape, axis: int) -> Array:
    """Return flat indices into a contiguous array of ``shape`` for ``indices`` along ``axis``.

    ``indices`` has this shape too, except along the axis. Raises ValueError for an index out of range.
    """
    before, length, after = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    rows = checked_indices(indices, length).astype(np.intp, copy=False).reshape(before, indices.shape[axis], after)
    first = np.arange(before, like=indices, dtype=np.intp).reshape(-1, 1, 1) * (length * after)
    if after == 1:
        flat = first + rows
    else:
        flat = rows * after
        flat += first + np.arange(after, like=indices, dtype=np.intp)
    return flat.reshape(-1)


def flat_indices_bytes(indices: TensorType) -> int:
    """Return the number of bytes that ``flat_indices`` allocates for indices of type ``indices``."""
    index_dtype = np.dtype(np.intp)
    return indices.size * index_dtype.itemsize * (1 if indices.dtype == index_dtype else 2)


def take_valid(table: Array, rows: Array, axis: int, out: Array | None) -> Array:
    """Return ``table`` at the valid indices ``rows`` along ``axis``, written into ``out`` unless it is None."""
    if isinstance(table, np.ndarray):
        return table.take(rows, axis, out, "clip")  # the mode "raise" would buffer the result
    return np.take(table, rows, axis, out)  # GPU arrays do not support modes


class Take(Operation):
    """Parts of a tensor at integer indices along one axis. In the result, the indices' shape replaces this axis.

    Negative indices count from the end.
    """

    family = "movement"
    axis: int
    accepts_strings, string_operands = True, slice(1)
    examples = (
        Example(real(5, 3), integers(2, 4, high=5), axis=0),
        Example(real(5, 2, 2), integers(3, low=-5, high=5), axis=0),
        Example(real(2, 4, 3), integers(2, 2, high=4), axis=1),
        Example(real(2, 4), integers(high=4), axis=1),
    )

    def infer(self, table: TensorType, indices: TensorType) -> TensorType:
        if not 0 <= self.axis < table.rank or indices.dtype.kind not in "iu":
            raise self.refuse(
                (table, indices), f"the table must have an axis {self.axis}, and the indices must be integers"
            )
        return table.with_shape((*table.shape[: self.axis], *indices.shape, *table.shape[self.axis + 1 :]))

    def kernel(self, out: Array, table: Array, indices: Array) -> Array:
        rows = checked_indices(indices, table.shape[self.axis])
        return take_valid(table, rows, self.axis, out)

    def gradient(self, g: Expr, y: Expr, table: Expr, indices: Expr) -> tuple[Expr, None]:
        return TakeGradient(self.axis, table.shape)(g, indices), None

    def batch(self, size: int, batched: tuple[bool, ...], table: Expr, indices: Expr) -> Expr:
        if not batched[1]:
            return Take(self.axis + 1)(table, indices)
        # the indices' axes replace axis 0, so a batch axis of the indices is already the first axis of the result
        if not batched[0] and self.axis == 0:
            return self(table, indices)
        return _loop(self, size, batched, table, indices)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0


class TakeGradient(Operation):
    """Adjoint of Take: adds each part of g to zeros, at the index that selected it in Take."""

    axis: int
    shape: Shape
    linear = accumulates = True
    examples = (
        Example(real(2, 4, 3), integers(2, 4, high=5), axis=0, shape=(5, 3)),
        Example(real(2, 3, 3), integers(3, low=-4, high=4), axis=1, shape=(2, 4, 3)),
    )

    def infer(self, g: TensorType, indices: TensorType) -> TensorType:
        if Take(self.axis).infer(TensorType(self.shape, g.dtype), indices).shape != g.shape:
            raise self.refuse((g, indices), f"g must have the shape of the parts taken from {self.shape}")
        return g.with_shape(self.shape)

    def kernel(self, out: Array, g: Array, indices: Array) -> Array:
        out[...] = 0
        rows = checked_indices(indices, self.shape[self.axis]).reshape(-1)
        parts = g.reshape(*self.shape[: self.axis], rows.size, *self.shape[self.axis + 1 :])
        table, added = np.moveaxis(out, self.axis, 0), np.moveaxis(parts, self.axis, 0)
        if rows.size and np.bincount(rows, minlength=1).max() > 1:
            # add.at, because table[rows] += added would add only the last part if an index occurs twice
            np.add.at(table, rows, added)
        else:  # without repeated indices, this is ten times as fast
            table[rows] = added
        return out

    def gradient(self, upstream: Expr, y: Expr, g: Expr, indices: Expr) -> tuple[Expr, None]:
        return Take(self.axis)(upstream, indices), None

    def batch(self, size: int, batched: tuple[bool, ...], g: Expr, indices: Expr) -> Expr:
        if not batched[1]:
            return TakeGradient(self.axis + 1, (size, *self.shape))(g, indices)
        return reshape(_loop(self, size, batched, g, indices), (size, *self.shape))

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return types[0].size


def _loop(operation: Operation, size: int, batched: tuple[bool, ...], *operands: Expr) -> Expr:
    """Record ``operation`` once for each batch element, and stack the results."""
    results = [
        operation(*[Index0(i)(x) if is_batched else x for x, is_batched in zip(operands, batched, strict=True)])
        for i in range(size)
    ]
    return Stack()(*results)


class TakeAlong(Movement):
    """Elements along one axis.

    Each index selects the element at this index along the axis and at its own position along the other axes.
    """

    accepts_strings, string_operands = True, slice(1)
    name = "take_along"
    axis: int
    linear = False
    examples = (
        Example(real(3, 4), integers(3, 2, high=4), axis=1),
        Example(real(3, 4), integers(5, 4, low=-3, high=3), axis=0),
    )

    def infer(self, x: TensorType, indices: TensorType) -> TensorType:
        if (
            not 0 <= self.axis < x.rank == indices.rank
            or indices.dtype.kind not in "iu"
            or _without(x.shape, self.axis) != _without(indices.shape, self.axis)
        ):
            raise self.refuse(
                (x, indices), f"indices must be integers with the shape of x, except along axis {self.axis}"
            )
        return x.with_shape(indices.shape)

    def kernel(self, out: Array, x: Array, indices: Array) -> Array:
        flat = flat_indices(indices, x.shape, self.axis)
        if out.flags.c_contiguous:
            take_valid(x.reshape(-1), flat, 0, out.reshape(-1))
        else:
            np.copyto(out, take_valid(x.reshape(-1), flat, 0, None).reshape(out.shape))
        return out

    def workspace(self, x: TensorType, indices: TensorType) -> int:
        return flat_indices_bytes(indices)

    def gradient(self, g: Expr, y: Expr, x: Expr, indices: Expr) -> tuple[Expr, None]:
        return TakeAlongGradient(self.axis, x.shape[self.axis])(g, indices), None

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr, indices: Expr) -> Expr:
        return TakeAlong(self.axis + 1)(*_all_batched(size, batched, x, indices))


class TakeAlongGradient(Movement):
    """Adjoint of TakeAlong: adds each element of g to zeros, at the index that selected it in TakeAlong."""

    axis: int
    length: int
    accumulates = True
    examples = (
        Example(real(3, 2), integers(3, 2, high=4), axis=1, length=4),
        Example(real(5, 4), integers(5, 4, low=-3, high=3), axis=0, length=3),
    )

    def infer(self, g: TensorType, indices: TensorType) -> TensorType:
        if g.shape != indices.shape or not 0 <= self.axis < g.rank or indices.dtype.kind not in "iu":
            raise self.refuse((g, indices), f"there must be an index for each element, and an axis {self.axis}")
        return g.with_shape((*g.shape[: self.axis], self.length, *g.shape[self.axis + 1 :]))

    def kernel(self, out: Array, g: Array, indices: Array) -> Array:
        # Flat indices, because GPU arrays support add.at with only one index.
        flat = flat_indices(indices, out.shape, self.axis)
        total = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype, like=out)
        total.fill(0)
        np.add.at(total.reshape(-1), flat, g.reshape(-1))
        return total

    def workspace(self, g: TensorType, indices: TensorType) -> int:
        return flat_indices_bytes(indices)

    def gradient(self, upstream: Expr, y: Expr, g: Expr, indices: Expr) -> tuple[Expr, None]:
        return TakeAlong(self.axis)(upstream, indices), None

    def batch(self, size: int, batched: tuple[bool, ...], g: Expr, indices: Expr) -> Expr:
        return TakeAlongGradient(self.axis + 1, self.length)(*_all_batched(size, batched, g, indices))

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return types[0].size


def _all_batched(size: int, batched: tuple[bool, ...], *operands: Expr) -> list[Expr]:
    return [
        x if is_batched else broadcast_to(x, (size, *x.shape)) for x, is_batched in zip(operands, batched, strict=True)
    ]


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _with_int64(indices: Any) -> Any:
    """Convert a Python int to int64, whatever the dtype of the table; return other indices unchanged."""
    return np.asarray(indices) if type(indices) is int else indices


@public
def embedding(table: Any, numbers: Any) -> Expr:
    """Take rows of ``table`` (rows, …) at the integer indices ``numbers``.

    The result has the shape numbers.shape + table.shape[1:].

    >>> ex.evaluate(ex.embedding(np.array([[0, 1], [2, 3], [4, 5]]), [2, 0]))
    array([[4, 5],
           [0, 1]])
    """
    return Take(0)(*as_operands((table, _with_int64(numbers))))


@public
def take(x: Any, indices: Any, axis: int | None = None) -> Expr:
    """Take the parts of ``x`` at ``indices`` along ``axis``; if the axis is None, ``x`` is flattened first.

    In the result, the indices' shape replaces the axis. Negative indices count from the end. Raises OperandError if the
    indices are not integers.

    An index out of range raises RunError when the kernel runs, because its value is not known earlier.

    >>> ex.evaluate(ex.take(np.array([10.0, 20.0, 30.0]), np.array([2, -3])))
    array([30., 10.])
    """
    x, indices = as_operands((x, _with_int64(indices)))
    if axis is None:
        return Take(0)(flatten(x), indices)
    x = vector_of_scalar(x, axis)
    return Take(normalize_axis(axis, x.ndim, "take"))(x, indices)


@public
def take_along_axis(x: Any, indices: Any, axis: int) -> Expr:
    """Take elements of ``x`` along ``axis``.

    Each index selects the element at this index along the axis and at its own position along the other axes.

    >>> x = ex.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> ex.evaluate(ex.take_along_axis(x, np.array([[1], [0]]), 1))
    array([[2.],
           [3.]])
    """
    x, indices = as_operands((x, _with_int64(indices)))
    normalized = normalize_axis(axis, x.ndim, "take_along_axis")
    if indices.ndim != x.ndim:
        raise OperandError(
            f"take_along_axis of {x.type} with indices {indices.type}",
            rule="the indices must have as many axes as the operand",
            fix="ex.take(x, indices, axis) for the same indices along all other axes",
        )
    shape = broadcast_shapes(_without(x.shape, normalized), _without(indices.shape, normalized))
    if shape is None:
        raise OperandError(
            f"take_along_axis of {x.type} with indices {indices.type}",
            rule=f"shapes must broadcast together, except along axis {normalized}",
            fix="ex.reshape(indices, …), since an axis of size 1 is repeated",
        )
    wide = [(*shape[:normalized], node.shape[normalized], *shape[normalized:]) for node in (x, indices)]
    return TakeAlong(normalized)(broadcast_to(x, wide[0]), broadcast_to(indices, wide[1]))
