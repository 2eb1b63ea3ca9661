"""Basic indexing: reading parts of tensors, and its adjoint, which puts them back among zeros.

``x[index]`` is translated to canonical spans once, when it is recorded, so that equal parts are equal operations
whatever index they were written with. Arrays of indices go to ``gather``.

A canonical span is an int (the axis is dropped) or (start, stop, step) with ends inside the axis, as ``slice.indices``
gives them. One operation reads, ``Slice``, and one puts back, ``SliceScatter``; each is the other's gradient.
``Index0`` is the frequent case of one member along the first axis, which batching rules look for. (ONNX: Slice, Gather
with a constant; PNNX: Tensor.slice, Tensor.select.)
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
    """Indices and ranges, one for each axis: an int drops the axis, (start, stop, step) keeps part of it."""

    spans: tuple[Any, ...]
    takes_text = True
    view = True
    examples = (Example(real(4, 5), spans=((1, 3, 1), 2)), Example(real(4, 5), spans=((0, 4, 2), (4, -1, -2))))

    def infer(self, x: TensorType) -> TensorType:
        if len(self.spans) != x.rank:
            raise self.refuse((x,), f"there must be one index or range for each axis, not {len(self.spans)}")
        for span, size in zip(self.spans, x.shape, strict=True):
            first, last = _ends(span)
            if not (0 <= first < size and 0 <= last < size) and (isinstance(span, int) or len(range(*span))):
                raise self.refuse(
                    (x,), f"indices and ranges must lie inside the axes, {span} is outside one of size {size}"
                )
        return x.with_shape(tuple([len(range(*span)) for span in self.spans if not isinstance(span, int)]))

    def kernel(self, out: None, x: Array) -> Array:
        # the Ellipsis keeps a part of ints alone an array, where NumPy would give a scalar
        part: Array = x[(*index_of(self.spans), ...)]
        return part

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (SliceScatter(self.spans, x.shape)(g),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return Slice(((0, size, 1), *self.spans))(x)


class SliceScatter(Movement):
    """Zeros of a shape with x at the indices and ranges that ``Slice`` would read."""

    spans: tuple[Any, ...]
    shape: Shape
    examples = (Example(real(2), spans=((1, 3, 1), 2), shape=(4, 5)),)

    def infer(self, x: TensorType) -> TensorType:
        if Slice(self.spans).infer(TensorType(self.shape, x.dtype)).shape != x.shape:
            raise self.refuse((x,), f"the shape must be that of the part {self.spans} of {self.shape}")
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
    takes_text = True
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
    """Return the first and the last index of a span; start and stop of an empty one."""
    if isinstance(span, int):
        return span, span
    places = range(*span)
    return (places[0], places[-1]) if places else (span[0], span[1])


def index_of(spans: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return NumPy's index of canonical spans; a negative stop means "through index 0"."""
    return tuple([s if isinstance(s, int) else slice(s[0], s[1] if s[1] >= 0 else None, s[2]) for s in spans])


@public
def getitem(x: Expr, index: Any) -> Expr:
    """Index ``x`` as NumPy does, by ints, slices, None, Ellipsis and integer arrays.

    >>> ex.evaluate(ex.tensor([[1, 2], [3, 4]])[:, 1])
    array([2, 4])
    """
    part = part_of(x, index)
    return whole_of(x) if part is x else part


def whole_of(x: Expr) -> Expr:
    """Record the whole of ``x`` as a part, so that the plan can report that it does nothing."""
    return Slice(tuple([(0, size, 1) for size in x.shape]))(x)


def part_of(x: Expr, index: Any) -> Expr:
    """Record the part of ``x`` at an index; return ``x`` if that is all of it."""
    entries = index if isinstance(index, tuple) else (index,)
    # a loop and not comprehensions: every x[…] that is recorded runs through here
    count = dots = 0
    for entry in entries:
        if entry is Ellipsis:
            dots += 1
        elif isinstance(entry, (list, np.ndarray, Operators)):
            return _at_arrays(x, entries)
        elif entry is not None:
            count += 1
    sizes = x.shape
    rank = len(sizes)
    if dots > 1 or count > rank:
        raise _too_many(index, x)
    if not dots:
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
                    fix="x[1:3]; values that are known only at run time are taken by ex.take",
                ) from None
            length = len(range(*span))
            # all empty parts are spelled alike, so that they are equal operations
            spans.append(span if length else (0, 0, 1))
            shape.append(length)
        # True is an int in Python, and a mask in NumPy: it is refused with the masks
        elif isinstance(entry, (int, np.integer)) and not isinstance(entry, bool):
            spans.append(_position(int(entry), x, axis))
        else:
            raise OperandError(
                f"index {entry!r} of {x.type}",
                rule="an index must be an int, a slice, None, Ellipsis, or an array of whole numbers",
                fix="use ex.where to choose by a condition",
            )
    part = x if spans == [(0, size, 1) for size in sizes] else Slice(tuple(spans))(x)
    return part if part.shape == tuple(shape) else Reshape(tuple(shape))(part)


def _at_arrays(x: Expr, entries: tuple[Any, ...]) -> Expr:
    """Record the elements at integer arrays, which are broadcast together: their shape replaces their axes.

    The new axes are where the first of these axes is; in front if other axes lie between them, as in NumPy.
    """
    dots = [place for place, entry in enumerate(entries) if entry is Ellipsis]
    consumed = sum([entry is not None and entry is not Ellipsis for entry in entries])
    if len(dots) > 1 or consumed > x.ndim:
        raise _too_many(entries, x)
    place = dots[0] if dots else len(entries)
    entries = (*entries[:place], *[slice(None)] * (x.ndim - consumed), *entries[place + 1 :])
    picked = [place for place, entry in enumerate(entries) if entry is not None and not isinstance(entry, slice)]
    # basic entries first: arrays then meet whole axes
    x = part_of(x, tuple([slice(None) if place in picked else entry for place, entry in enumerate(entries)]))
    places = [_places(entries[place], x, place) for place in picked]
    front = picked[0]
    sizes = tuple([x.shape[place] for place in picked])
    # array indices with another axis between them: NumPy moves the new axes to the front
    if picked[-1] - front >= len(picked):
        front, rest = 0, [axis for axis in range(x.ndim) if axis not in picked]
        x = function("transpose")(x, (*picked, *rest))
    take = function("take")
    if len(places) == 1:
        return cast("Expr", take(x, places[0], front))
    concrete = [numbers for numbers in places if isinstance(numbers, np.ndarray)]
    if len(concrete) < len(places):
        raise OperandError(
            f"index {entries!r} of {x.type}",
            rule="an expression must be the only index of its kind: the others must be concrete arrays",
            fix="take in two steps, x[:, 0][numbers], or ex.take_along_axis(x, numbers, axis)",
        )
    try:
        together = np.broadcast_arrays(*concrete)
    except ValueError as error:
        raise OperandError(
            f"index {entries!r} of {x.type}: {error}",
            rule="index arrays must have shapes that broadcast together",
            fix="ex.take for one axis after the other, or index[:, None] together with index",
        ) from None
    # several arrays are one index into the axes merged: then a single gather serves, and its gradient adds equal places
    strides = [math.prod(sizes[place + 1 :]) for place in range(len(sizes))]
    linear = sum([numbers * stride for numbers, stride in zip(together, strides, strict=True)], np.intp(0))
    joined = Reshape((*x.shape[:front], math.prod(sizes), *x.shape[front + len(sizes) :]))(x)
    return cast("Expr", take(joined, np.asarray(linear), front))


def _places(entry: Any, x: Expr, axis: int) -> Any:
    """Return integer indices along an axis, counted from the front if they are known; an expression as it is."""
    numbers = entry if isinstance(entry, Operators) else np.asarray(entry)
    # NumPy makes [] floating, and accepts it as an index all the same
    if isinstance(numbers, np.ndarray) and isinstance(entry, list) and not numbers.size:
        numbers = numbers.astype(np.intp)
    indices: Any = numbers
    if indices.dtype.kind not in "iu":
        raise OperandError(
            f"index of dtype {indices.dtype} at axis {axis} of {x.type}",
            rule="an index array must hold integers: how many elements a mask picks is not known yet",
            fix="use ex.where(mask, x, 0) to choose by a condition",
        )
    if not isinstance(numbers, np.ndarray):
        return numbers
    size = x.shape[axis]
    if numbers.size and not (-size <= int(numbers.min()) and int(numbers.max()) < size):
        wrong = int(numbers.min()) if int(numbers.min()) < -size else int(numbers.max())
        raise _outside(wrong, x, axis)
    numbers = numbers.astype(np.intp)
    return np.where(numbers < 0, numbers + size, numbers)


def _too_many(index: Any, x: Expr) -> OperandError:
    return OperandError(
        f"index {index!r} of {x.type}",
        rule=f"there must be at most {x.ndim} indices and one Ellipsis",
        fix="leave indices out: those of the last axes take everything",
    )


def _outside(index: int, x: Expr, axis: int) -> OperandError:
    size = x.shape[axis]
    return OperandError(
        f"index {index} of axis {axis} of {x.type}",
        rule=f"an index must lie in {-size} … {size - 1}" if size else "an axis of size 0 has no elements to index",
        fix="a slice, x[1:2], may reach beyond the end, and is empty there",
    )


def _position(index: int, x: Expr, axis: int) -> int:
    size = x.shape[axis]
    if not -size <= index < size:
        raise _outside(index, x, axis)
    return index % size
