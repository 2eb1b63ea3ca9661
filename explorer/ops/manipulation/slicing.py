"""Basic indexing: slices of tensors, and the adjoint operation, which writes a slice into zeros.

``x[index]`` is recorded with canonical spans, so that equal parts are equal operations however the index was written.
Index arrays are handled by ``gather``.

A canonical span is either an int, which removes the axis, or (start, stop, step) as returned by ``slice.indices``.
``Slice`` reads a part, and ``SliceScatter``, its adjoint, writes a part into zeros. ``Index0`` is the frequent case of
one index along the first axis; batching rules look for it. (ONNX: Slice, Gather with a constant; PNNX: Tensor.slice,
Tensor.select.)
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operators
from explorer.core.ir.operation_examples import Example, real
from explorer.core.registry import function, public
from explorer.core.types.tensor_type import Array, Shape, TensorType
from explorer.ops.manipulation.reshape import Movement, Reshape

__all__ = ["getitem"]


class Slice(Movement):
    """Part of x, given by one span for each axis: an int removes the axis, (start, stop, step) keeps part of it."""

    spans: tuple[Any, ...]
    accepts_strings = True
    view = True
    examples = (Example(real(4, 5), spans=((1, 3, 1), 2)), Example(real(4, 5), spans=((0, 4, 2), (4, -1, -2))))

    def infer(self, x: TensorType) -> TensorType:
        if len(self.spans) != x.rank:
            raise self.refuse((x,), f"there must be one index or range for each axis, not {len(self.spans)}")
        for span, size in zip(self.spans, x.shape, strict=True):
            first, last = _ends(span)
            if not (0 <= first < size and 0 <= last < size) and (isinstance(span, int) or len(range(*span))):
                raise self.refuse(
                    (x,), f"indices and ranges must be within the axes; {span} exceeds an axis of size {size}"
                )
        return x.with_shape(tuple([len(range(*span)) for span in self.spans if not isinstance(span, int)]))

    def kernel(self, out: None, x: Array) -> Array:
        # with the Ellipsis, the result is an array instead of a scalar if the index consists only of ints
        part: Array = x[(*index_of(self.spans), ...)]
        return part

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (SliceScatter(self.spans, x.shape)(g),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return Slice(((0, size, 1), *self.spans))(x)


class SliceScatter(Movement):
    """Tensor of zeros into which x is written, at the elements that ``Slice`` would read."""

    spans: tuple[Any, ...]
    shape: Shape
    examples = (Example(real(2), spans=((1, 3, 1), 2), shape=(4, 5)),)

    def infer(self, x: TensorType) -> TensorType:
        if Slice(self.spans).infer(TensorType(self.shape, x.dtype)).shape != x.shape:
            raise self.refuse((x,), f"the shape must be the shape of the part {self.spans} of {self.shape}")
        return x.with_shape(self.shape)

    def kernel(self, out: Array, x: Array) -> Array:
        out[...] = 0
        out[(*index_of(self.spans), ...)] = x
        return out

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (Slice(self.spans)(g),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return SliceScatter(((0, size, 1), *self.spans), (size, *self.shape))(x)


class Index0(Movement):
    """Part at one index of the first axis."""

    index: int
    accepts_strings = True
    view = True
    examples = (Example(real(3, 2), index=1),)

    def infer(self, x: TensorType) -> TensorType:
        if not x.shape or not 0 <= self.index < x.shape[0]:
            raise self.refuse((x,), f"the first axis must have an index {self.index}")
        return x.with_shape(x.shape[1:])

    def kernel(self, out: None, x: Array) -> Array:
        member: Array = x[self.index, ...]
        return member

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (SliceScatter((self.index, *[(0, size, 1) for size in x.shape[1:]]), x.shape)(g),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return Slice(((0, size, 1), self.index, *[(0, n, 1) for n in x.shape[2:]]))(x)


def _ends(span: Any) -> tuple[int, int]:
    """Return the first and the last index in ``span``, or its start and stop if it is empty."""
    if isinstance(span, int):
        return span, span
    index_arrays = range(*span)
    return (index_arrays[0], index_arrays[-1]) if index_arrays else (span[0], span[1])


def index_of(spans: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the NumPy index for canonical spans; a negative stop means that index 0 is included."""
    return tuple([s if isinstance(s, int) else slice(s[0], s[1] if s[1] >= 0 else None, s[2]) for s in spans])


@public
def getitem(x: Expr, index: Any) -> Expr:
    """Index ``x`` as in NumPy; the index consists of ints, slices, None, Ellipsis and integer arrays.

    >>> ex.evaluate(ex.tensor([[1, 2], [3, 4]])[:, 1])
    array([2, 4])
    """
    part = part_of(x, index)
    return whole_of(x) if part is x else part


def whole_of(x: Expr) -> Expr:
    """Record a slice that contains all of ``x``, so that the plan can report that indexing has no effect."""
    return Slice(tuple([(0, size, 1) for size in x.shape]))(x)


def part_of(x: Expr, index: Any) -> Expr:
    """Record the part of ``x`` at ``index``; return ``x`` if the index selects all of it."""
    entries = index if isinstance(index, tuple) else (index,)
    # loops are faster than comprehensions here, and this function runs for every recorded x[…]
    count = ellipses = 0
    for entry in entries:
        if entry is Ellipsis:
            ellipses += 1
        elif isinstance(entry, (list, np.ndarray, Operators)):
            return _at_index_arrays(x, entries)
        elif entry is not None:
            count += 1
    sizes = x.shape
    rank = len(sizes)
    if ellipses > 1 or count > rank:
        raise _too_many(index, x)
    if not ellipses:
        entries = (*entries, Ellipsis)
    spans: list[Any] = []
    shape: list[int] = []
    for entry in entries:
        axis = len(spans)
        if entry is None:
            shape.append(1)
        elif entry is Ellipsis:
            for size in sizes[axis : axis + rank - count]:
                spans.append((0, size, 1))
                shape.append(size)
        elif isinstance(entry, slice):
            try:
                span = entry.indices(sizes[axis])
            except (TypeError, ValueError) as error:
                raise OperandError(
                    f"index {entry!r} of {x.type}: {error}",
                    rule="slices must consist of ints",
                    fix="x[1:3], or ex.take for indices that are known only at run time",
                ) from None
            length = len(range(*span))
            # all empty parts use the same span, so that they are equal operations
            spans.append(span if length else (0, 0, 1))
            shape.append(length)
        # True is an int in Python but a mask in NumPy, so it is rejected, like masks
        elif isinstance(entry, (int, np.integer)) and not isinstance(entry, bool):
            spans.append(_position(int(entry), x, axis))
        else:
            raise OperandError(
                f"index {entry!r} of {x.type}",
                rule="an index must be an int, a slice, None, Ellipsis, or an integer array",
                fix="use ex.where to select by a condition",
            )
    part = x if spans == [(0, size, 1) for size in sizes] else Slice(tuple(spans))(x)
    return part if part.shape == tuple(shape) else Reshape(tuple(shape))(part)


def _at_index_arrays(x: Expr, entries: tuple[Any, ...]) -> Expr:
    """Record indexing of ``x`` by integer arrays, which are broadcast against each other.

    In the result, their shape replaces the indexed axes. As in NumPy, the new axes are at the position of the first
    indexed axis, or come first if other axes are between the indexed axes.
    """
    ellipses = [position for position, entry in enumerate(entries) if entry is Ellipsis]
    consumed = sum([entry is not None and entry is not Ellipsis for entry in entries])
    if len(ellipses) > 1 or consumed > x.ndim:
        raise _too_many(entries, x)
    position = ellipses[0] if ellipses else len(entries)
    entries = (*entries[:position], *[slice(None)] * (x.ndim - consumed), *entries[position + 1 :])
    indexed = [position for position, entry in enumerate(entries) if entry is not None and not isinstance(entry, slice)]
    # apply basic entries first, so that arrays index whole axes
    x = part_of(x, tuple([slice(None) if position in indexed else entry for position, entry in enumerate(entries)]))
    index_arrays = [_index_array(entries[position], x, position) for position in indexed]
    front = indexed[0]
    sizes = tuple([x.shape[position] for position in indexed])
    if indexed[-1] - front >= len(indexed):
        front, rest = 0, [axis for axis in range(x.ndim) if axis not in indexed]
        x = function("transpose")(x, (*indexed, *rest))
    take = function("take")
    if len(index_arrays) == 1:
        return cast("Expr", take(x, index_arrays[0], front))
    concrete = [indices for indices in index_arrays if isinstance(indices, np.ndarray)]
    if len(concrete) < len(index_arrays):
        raise OperandError(
            f"index {entries!r} of {x.type}",
            rule="several index arrays must all be NumPy arrays; an expression must be the only index array",
            fix="index in two steps, x[:, 0][indices], or use ex.take_along_axis(x, indices, axis)",
        )
    try:
        broadcast = np.broadcast_arrays(*concrete)
    except ValueError as error:
        raise OperandError(
            f"index {entries!r} of {x.type}: {error}",
            rule="index arrays must have shapes that broadcast together",
            fix="ex.take for one axis at a time, or index[:, None] together with index",
        ) from None
    # merge the indexed axes, and the index arrays too, so that one gather suffices; its gradient adds the parts if an
    # index occurs twice
    strides = [math.prod(sizes[position + 1 :]) for position in range(len(sizes))]
    linear = sum([indices * stride for indices, stride in zip(broadcast, strides, strict=True)], np.intp(0))
    joined = Reshape((*x.shape[:front], math.prod(sizes), *x.shape[front + len(sizes) :]))(x)
    return cast("Expr", take(joined, np.asarray(linear), front))


def _index_array(entry: Any, x: Expr, axis: int) -> Any:
    """Return an index array with indices counted from the front; return an expression unchanged."""
    indices: Any = entry if isinstance(entry, Operators) else np.asarray(entry)
    # NumPy converts [] to a floating array, but accepts it as an index
    if isinstance(indices, np.ndarray) and isinstance(entry, list) and not indices.size:
        indices = indices.astype(np.intp)
    if indices.dtype.kind not in "iu":
        raise OperandError(
            f"index of dtype {indices.dtype} at axis {axis} of {x.type}",
            rule="an index array must contain integers, since the number of elements that a mask selects is unknown",
            fix="use ex.where(mask, x, 0) to select by a condition",
        )
    if not isinstance(indices, np.ndarray):
        return indices
    size = x.shape[axis]
    if indices.size and not (-size <= int(indices.min()) and int(indices.max()) < size):
        wrong = int(indices.min()) if int(indices.min()) < -size else int(indices.max())
        raise _outside(wrong, x, axis)
    indices = indices.astype(np.intp)
    return np.where(indices < 0, indices + size, indices)


def _too_many(index: Any, x: Expr) -> OperandError:
    return OperandError(
        f"index {index!r} of {x.type}",
        rule=f"there must be at most {x.ndim} indices and one Ellipsis",
        fix="omit trailing indices, since axes without an index are kept whole",
    )


def _outside(index: int, x: Expr, axis: int) -> OperandError:
    size = x.shape[axis]
    return OperandError(
        f"index {index} of axis {axis} of {x.type}",
        rule=f"an index must be in {-size} … {size - 1}" if size else "an axis of size 0 has no elements to index",
        fix="use a slice such as x[1:2], which may extend beyond the end",
    )


def _position(index: int, x: Expr, axis: int) -> int:
    size = x.shape[axis]
    if not -size <= index < size:
        raise _outside(index, x, axis)
    return index % size
