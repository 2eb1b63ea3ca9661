"""Gathering by indices that are themselves operands: rows of a table, elements along an axis.

Indices that are known when an expression is recorded become slices instead (``slicing``). Their range is checked when
the kernel runs, since the values are not known before.

The gradient of a gather adds each part to zeros at its index, since an index may occur many times; indices have no
gradient. (ONNX: Gather, GatherElements, GatherND; PNNX: torch.gather, torch.index_select, nn.Embedding, F.embedding.)
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


def places(numbers: Array, length: int) -> Array:
    """Return indices in 0 … length − 1, negative ones counted from the end; raises ValueError for any other."""
    if not numbers.size:
        return numbers
    if numbers.dtype.kind == "i" and numbers.dtype.isnative:
        # the usual case in one pass: read as unsigned, a negative number is larger than all others
        unsigned = numbers.view(f"u{numbers.dtype.itemsize}")
        if int(unsigned.max()) < min(length, np.iinfo(numbers.dtype).max + 1):
            return numbers
    # two passes without a temporary, where a comparison of all would allocate two; Python ints, since −length may not
    # fit an unsigned dtype
    smallest, largest = int(numbers.min()), int(numbers.max())
    if smallest < -length or largest >= length:
        wrong = smallest if smallest < -length else largest
        raise ValueError(f"row {wrong} of a table with rows 0 … {length - 1}")
    if smallest >= 0:
        return numbers
    # a narrow dtype may not hold the length
    wide = numbers.astype(np.int64, copy=False)
    return np.where(wide < 0, wide + length, wide)


def flat_places(numbers: Array, shape: Shape, axis: int) -> Array:
    """Return where the elements at indices along an axis lie in a contiguous array of a shape, flat.

    The indices have the array's shape except for the axis. Raises ValueError for an index outside.
    """
    before, length, behind = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    rows = places(numbers, length).astype(np.intp, copy=False).reshape(before, numbers.shape[axis], behind)
    first = np.arange(before, like=numbers, dtype=np.intp).reshape(-1, 1, 1) * (length * behind)
    if behind == 1:
        flat = first + rows
    else:
        flat = rows * behind
        flat += first + np.arange(behind, like=numbers, dtype=np.intp)
    return flat.reshape(-1)


def flat_places_bytes(numbers: TensorType) -> int:
    """Return the bytes that ``flat_places`` allocates for indices of a type."""
    place = np.dtype(np.intp)
    return numbers.size * place.itemsize * (1 if numbers.dtype == place else 2)


def take_valid(table: Array, rows: Array, axis: int, out: Array | None) -> Array:
    """Return the parts of a table at indices that exist, in ``out`` if it is given."""
    if isinstance(table, np.ndarray):
        return table.take(rows, axis, out, "clip")  # "raise" would buffer the result
    return np.take(table, rows, axis, out)  # arrays of a GPU know no mode


class Take(Operation):
    """Parts of a tensor at integer indices along one axis; the indices' shape replaces that axis.

    Negative indices count from the end.
    """

    axis: int
    takes_text, text_operands = True, slice(1)
    examples = (
        Example(real(5, 3), integers(2, 4, high=5), axis=0),
        Example(real(5, 2, 2), integers(3, low=-5, high=5), axis=0),
        Example(real(2, 4, 3), integers(2, 2, high=4), axis=1),
        Example(real(2, 4), integers(high=4), axis=1),
    )

    def infer(self, table: TensorType, numbers: TensorType) -> TensorType:
        if not 0 <= self.axis < table.rank or numbers.dtype.kind not in "iu":
            raise self.refuse(
                (table, numbers), f"the table must have an axis {self.axis}, and the indices must be integers"
            )
        return table.with_shape((*table.shape[: self.axis], *numbers.shape, *table.shape[self.axis + 1 :]))

    def kernel(self, out: Array, table: Array, numbers: Array) -> Array:
        rows = places(numbers, table.shape[self.axis])
        return take_valid(table, rows, self.axis, out)

    def gradient(self, g: Expr, y: Expr, table: Expr, numbers: Expr) -> tuple[Expr, None]:
        return TakeGradient(self.axis, table.shape)(g, numbers), None

    def batch(self, size: int, batched: tuple[bool, ...], table: Expr, numbers: Expr) -> Expr:
        if not batched[1]:
            return Take(self.axis + 1)(table, numbers)
        # the indices' axes replace axis 0, so that their batch axis is in front already
        if not batched[0] and self.axis == 0:
            return self(table, numbers)
        return _loop(self, size, batched, table, numbers)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0


class TakeGradient(Operation):
    """Adjoint of Take: each part of g added, in zeros, at the index that it was taken from."""

    axis: int
    shape: Shape
    linear = accumulates = True
    examples = (
        Example(real(2, 4, 3), integers(2, 4, high=5), axis=0, shape=(5, 3)),
        Example(real(2, 3, 3), integers(3, low=-4, high=4), axis=1, shape=(2, 4, 3)),
    )

    def infer(self, g: TensorType, numbers: TensorType) -> TensorType:
        if Take(self.axis).infer(TensorType(self.shape, g.dtype), numbers).shape != g.shape:
            raise self.refuse((g, numbers), f"g must have the shape of the parts taken from {self.shape}")
        return g.with_shape(self.shape)

    def kernel(self, out: Array, g: Array, numbers: Array) -> Array:
        out[...] = 0
        rows = places(numbers, self.shape[self.axis]).reshape(-1)
        parts = g.reshape(*self.shape[: self.axis], rows.size, *self.shape[self.axis + 1 :])
        table, added = np.moveaxis(out, self.axis, 0), np.moveaxis(parts, self.axis, 0)
        if rows.size and np.bincount(rows, minlength=1).max() > 1:
            # add.at, because out[rows] += g would add only the last of equal rows
            np.add.at(table, rows, added)
        else:  # a tenth of its time
            table[rows] = added
        return out

    def gradient(self, upstream: Expr, y: Expr, g: Expr, numbers: Expr) -> tuple[Expr, None]:
        return Take(self.axis)(upstream, numbers), None

    def batch(self, size: int, batched: tuple[bool, ...], g: Expr, numbers: Expr) -> Expr:
        if not batched[1]:
            return TakeGradient(self.axis + 1, (size, *self.shape))(g, numbers)
        return reshape(_loop(self, size, batched, g, numbers), (size, *self.shape))

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return types[0].size


def _loop(operation: Operation, size: int, batched: tuple[bool, ...], *operands: Expr) -> Expr:
    """Record one operation per member, stacked."""
    members = [
        operation(*[Index0(i)(x) if is_batched else x for x, is_batched in zip(operands, batched, strict=True)])
        for i in range(size)
    ]
    return Stack()(*members)


class TakeAlong(Movement):
    """Elements along one axis: each index chooses along the axis, at its own position on the others."""

    takes_text, text_operands = True, slice(1)
    name = "take_along"
    axis: int
    linear = False
    examples = (
        Example(real(3, 4), integers(3, 2, high=4), axis=1),
        Example(real(3, 4), integers(5, 4, low=-3, high=3), axis=0),
    )

    def infer(self, x: TensorType, numbers: TensorType) -> TensorType:
        if (
            not 0 <= self.axis < x.rank == numbers.rank
            or numbers.dtype.kind not in "iu"
            or _without(x.shape, self.axis) != _without(numbers.shape, self.axis)
        ):
            raise self.refuse((x, numbers), f"indices must be integers of the shape of x, except for axis {self.axis}")
        return x.with_shape(numbers.shape)

    def kernel(self, out: Array, x: Array, numbers: Array) -> Array:
        flat = flat_places(numbers, x.shape, self.axis)
        if out.flags.c_contiguous:
            take_valid(x.reshape(-1), flat, 0, out.reshape(-1))
        else:
            np.copyto(out, take_valid(x.reshape(-1), flat, 0, None).reshape(out.shape))
        return out

    def workspace(self, x: TensorType, numbers: TensorType) -> int:
        return flat_places_bytes(numbers)

    def gradient(self, g: Expr, y: Expr, x: Expr, numbers: Expr) -> tuple[Expr, None]:
        return TakeAlongGradient(self.axis, x.shape[self.axis])(g, numbers), None

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr, numbers: Expr) -> Expr:
        return TakeAlong(self.axis + 1)(*_whole(size, batched, x, numbers))


class TakeAlongGradient(Movement):
    """Adjoint of TakeAlong: each element of g added, in zeros, at the index that it was taken from."""

    axis: int
    length: int
    accumulates = True
    examples = (
        Example(real(3, 2), integers(3, 2, high=4), axis=1, length=4),
        Example(real(5, 4), integers(5, 4, low=-3, high=3), axis=0, length=3),
    )

    def infer(self, g: TensorType, numbers: TensorType) -> TensorType:
        if g.shape != numbers.shape or not 0 <= self.axis < g.rank or numbers.dtype.kind not in "iu":
            raise self.refuse((g, numbers), f"there must be an index for each element, and an axis {self.axis}")
        return g.with_shape((*g.shape[: self.axis], self.length, *g.shape[self.axis + 1 :]))

    def kernel(self, out: Array, g: Array, numbers: Array) -> Array:
        # Places in memory, since a GPU adds at one index alone.
        flat = flat_places(numbers, out.shape, self.axis)
        total = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype, like=out)
        total.fill(0)
        np.add.at(total.reshape(-1), flat, g.reshape(-1))
        return total

    def workspace(self, g: TensorType, numbers: TensorType) -> int:
        return flat_places_bytes(numbers)

    def gradient(self, upstream: Expr, y: Expr, g: Expr, numbers: Expr) -> tuple[Expr, None]:
        return TakeAlong(self.axis)(upstream, numbers), None

    def batch(self, size: int, batched: tuple[bool, ...], g: Expr, numbers: Expr) -> Expr:
        return TakeAlongGradient(self.axis + 1, self.length)(*_whole(size, batched, g, numbers))

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return types[0].size


def _whole(size: int, batched: tuple[bool, ...], *operands: Expr) -> list[Expr]:
    return [
        x if is_batched else broadcast_to(x, (size, *x.shape)) for x, is_batched in zip(operands, batched, strict=True)
    ]


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _whole_numbers(indices: Any) -> Any:
    """Convert indices; a Python int among them becomes int64, whatever the dtype of the table."""
    return np.asarray(indices) if type(indices) is int else indices


@public
def embedding(table: Any, numbers: Any) -> Expr:
    """Take rows of ``table`` (rows, …) at integers ``numbers``: the shape is numbers.shape + table.shape[1:].

    >>> ex.evaluate(ex.embedding(np.array([[0, 1], [2, 3], [4, 5]]), [2, 0]))
    array([[4, 5],
           [0, 1]])
    """
    return Take(0)(*as_operands((table, _whole_numbers(numbers))))


@public
def take(x: Any, indices: Any, axis: int | None = None) -> Expr:
    """Take the parts of ``x`` at indices along an axis, of the flattened ``x`` for None.

    The indices' shape replaces the axis; negative ones count from the end. Raises OperandError for indices that are not
    integers.

    An index outside the axis raises RunError when the kernel runs: its value is not known before.

    >>> ex.evaluate(ex.take(np.array([10.0, 20.0, 30.0]), np.array([2, -3])))
    array([30., 10.])
    """
    x, indices = as_operands((x, _whole_numbers(indices)))
    if axis is None:
        return Take(0)(flatten(x), indices)
    x = vector_of_scalar(x, axis)
    return Take(normalize_axis(axis, x.ndim, "take"))(x, indices)


@public
def take_along_axis(x: Any, indices: Any, axis: int) -> Expr:
    """Take elements of ``x`` along ``axis``: each index chooses along the axis, at its own position on the others.

    >>> x = ex.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> ex.evaluate(ex.take_along_axis(x, np.array([[1], [0]]), 1))
    array([[2.],
           [3.]])
    """
    x, indices = as_operands((x, _whole_numbers(indices)))
    place = normalize_axis(axis, x.ndim, "take_along_axis")
    if indices.ndim != x.ndim:
        raise OperandError(
            f"take_along_axis of {x.type} with indices {indices.type}",
            rule="the indices must have as many axes as the operand",
            fix="ex.take(x, indices, axis) for the same indices everywhere",
        )
    shape = broadcast_shapes(_without(x.shape, place), _without(indices.shape, place))
    if shape is None:
        raise OperandError(
            f"take_along_axis of {x.type} with indices {indices.type}",
            rule=f"shapes must broadcast together, except for axis {place}",
            fix="ex.reshape(indices, …): a size of 1 is repeated along its axis",
        )
    wide = [(*shape[:place], node.shape[place], *shape[place:]) for node in (x, indices)]
    return TakeAlong(place)(broadcast_to(x, wide[0]), broadcast_to(indices, wide[1]))
