"""Operations that move elements and compute none: shapes, axes, repetition, parts."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.example import Example, real
from explorer.core.expr import Expr
from explorer.core.operation import Operation, as_operands
from explorer.core.registry import public
from explorer.core.types import AnyType, Array, Shape, TensorType, broadcast_shapes, normalize_axis


class Movement(Operation, abstract=True):
    """Moves elements; linear, no arithmetic."""

    linear: ClassVar[bool] = True

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0


class Reshape(Movement):
    """The same elements, in row-major order, in another shape."""

    shape: Shape
    view = True
    examples = (Example(real(2, 3, 4), shape=(6, 4)), Example(real(), shape=(1, 1)))

    def infer(self, x: TensorType) -> TensorType:
        if math.prod(self.shape) != x.size:
            raise self.refuse(
                (x,), f"the new shape {self.shape} has as many elements ({math.prod(self.shape)}) as the old ({x.size})"
            )
        return x.with_shape(self.shape)

    def kernel(self, out: None, x: Array) -> Array:
        return x.reshape(self.shape)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (Reshape(x.shape)(g),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return Reshape((size, *self.shape))(x)


class Transpose(Movement):
    """The axes in another order: axis i of the result is axis axes[i] of x."""

    axes: tuple[int, ...]
    view = True
    examples = (Example(real(2, 3, 4), axes=(2, 0, 1)), Example(real(2, 3), axes=(1, 0)))

    def infer(self, x: TensorType) -> TensorType:
        if sorted(self.axes) != list(range(x.rank)):
            raise self.refuse((x,), f"axes {self.axes} name each of the axes 0 … {x.rank - 1} once")
        return x.with_shape(tuple([x.shape[axis] for axis in self.axes]))

    def kernel(self, out: None, x: Array) -> Array:
        return x.transpose(self.axes)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (Transpose(inverse(self.axes))(g),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return Transpose((0, *[axis + 1 for axis in self.axes]))(x)


class BroadcastTo(Movement):
    """Elements repeated along new axes and axes of size 1."""

    shape: Shape
    view = True
    examples = (Example(real(3, 1), shape=(2, 3, 4)), Example(real(), shape=(2,)))

    def infer(self, x: TensorType) -> TensorType:
        if broadcast_shapes(x.shape, self.shape) != self.shape:
            raise self.refuse((x,), f"the shape can be broadcast to {self.shape}")
        return x.with_shape(self.shape)

    def kernel(self, out: None, x: Array) -> Array:
        return np.broadcast_to(x, self.shape)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        from_front = len(self.shape) - x.ndim
        repeated = [from_front + i for i, size in enumerate(x.shape) if size == 1 and self.shape[from_front + i] != 1]
        return (reshape(g.sum(axis=(*range(from_front), *repeated)), x.shape),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        ones = (1,) * (len(self.shape) - (x.ndim - 1))
        return BroadcastTo((size, *self.shape))(reshape(x, (size, *ones, *x.shape[1:])))


class Cast(Movement):
    """The elements converted to another dtype."""

    dtype: np.dtype[Any]
    elementwise = True
    examples = (Example(real(2, 3), dtype=np.dtype("float64")), Example(real(3, dtype="float32"), dtype=np.dtype("float64")))

    def infer(self, x: TensorType) -> TensorType:
        return x.with_dtype(self.dtype)

    def kernel(self, out: Array, x: Array) -> Array:
        np.copyto(out, x, casting="unsafe")
        return out

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr | None]:
        return (cast(g, x.dtype) if x.dtype.kind in "fc" else None,)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return self(x)


class Stack(Movement):
    """Tensors of one shape as the members of a new first axis."""

    examples = (Example(real(2, 3), real(2, 3)), Example(real(), real(), real()))

    def infer(self, *types: TensorType) -> TensorType:
        if not types or any(kind.shape != types[0].shape for kind in types):
            raise self.refuse(types[:4], "there is at least one operand, and all have one shape")
        dtype = types[0].dtype if len(set(types)) == 1 else np.result_type(*[kind.dtype for kind in types])
        return TensorType((len(types), *types[0].shape), dtype)

    def kernel(self, out: Array, *members: Array) -> Array:
        return np.stack(members, out=out)

    def gradient(self, g: Expr, y: Expr, *members: Expr) -> tuple[Expr, ...]:
        return tuple([Member(index)(g) for index in range(len(members))])

    def batch(self, size: int, batched: tuple[bool, ...], *members: Expr) -> Expr:
        whole = [
            node if yes else broadcast_to(node, (size, *node.shape)) for node, yes in zip(members, batched, strict=True)
        ]
        stacked = self(*whole)
        return Transpose((1, 0, *range(2, stacked.ndim)))(stacked)


class Member(Movement):
    """The part at one index of the first axis."""

    index: int
    view = True
    examples = (Example(real(3, 2), index=1),)

    def infer(self, x: TensorType) -> TensorType:
        if not x.shape or not 0 <= self.index < x.shape[0]:
            raise self.refuse((x,), f"the first axis has an index {self.index}")
        return x.with_shape(x.shape[1:])

    def kernel(self, out: None, x: Array) -> Array:
        member: Array = x[self.index, ...]
        return member

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (Place((self.index, *[(0, size, 1) for size in x.shape[1:]]), x.shape)(g),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return Part(((0, size, 1), self.index, *[(0, n, 1) for n in x.shape[2:]]))(x)


class Concatenate(Movement):
    """Tensors joined along an axis that they have."""

    axis: int
    examples = (Example(real(2, 3), real(4, 3), axis=0), Example(real(2, 3), real(2, 1), axis=1))

    def infer(self, *types: TensorType) -> TensorType:
        first = types[0].shape if types else ()
        rest = [kind.shape[: self.axis] + kind.shape[self.axis + 1 :] for kind in types]
        if not types or not 0 <= self.axis < len(first) or any(len(k.shape) != len(first) for k in types) or len(set(rest)) > 1:
            raise self.refuse(types, f"shapes are equal but for axis {self.axis}")
        length = sum(kind.shape[self.axis] for kind in types)
        shape = (*first[: self.axis], length, *first[self.axis + 1 :])
        return TensorType(shape, np.result_type(*[kind.dtype for kind in types]))

    def kernel(self, out: Array, *parts: Array) -> Array:
        return np.concatenate(parts, axis=self.axis, out=out)

    def gradient(self, g: Expr, y: Expr, *parts: Expr) -> tuple[Expr, ...]:
        gradients, start = [], 0
        for part in parts:
            stop = start + part.shape[self.axis]
            spans: list[Any] = [(0, size, 1) for size in g.shape]
            spans[self.axis] = (start, stop, 1)
            gradients.append(Part(tuple(spans))(g))
            start = stop
        return tuple(gradients)

    def batch(self, size: int, batched: tuple[bool, ...], *parts: Expr) -> Expr:
        whole = [node if yes else broadcast_to(node, (size, *node.shape)) for node, yes in zip(parts, batched, strict=True)]
        return Concatenate(self.axis + 1)(*whole)


class Part(Movement):
    """Indices and ranges, one for each axis: an int drops the axis, (start, stop, step) keeps part of it."""

    spans: tuple[Any, ...]
    view = True
    examples = (Example(real(4, 5), spans=((1, 3, 1), 2)), Example(real(4, 5), spans=((0, 4, 2), (4, -1, -2))))

    def infer(self, x: TensorType) -> TensorType:
        if len(self.spans) != x.rank:
            raise self.refuse((x,), f"there is one index or range for each axis, {len(self.spans)} are given")
        return x.with_shape(tuple([len(range(*span)) for span in self.spans if not isinstance(span, int)]))

    def kernel(self, out: None, x: Array) -> Array:
        part: Array = x[(*index_of(self.spans), ...)]
        return part

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (Place(self.spans, x.shape)(g),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return Part(((0, size, 1), *self.spans))(x)


class Place(Movement):
    """Zeros of a shape with x at the indices and ranges that ``Part`` would read."""

    spans: tuple[Any, ...]
    shape: Shape
    examples = (Example(real(2), spans=((1, 3, 1), 2), shape=(4, 5)),)

    def infer(self, x: TensorType) -> TensorType:
        if Part(self.spans).infer(TensorType(self.shape, x.dtype)).shape != x.shape:
            raise self.refuse((x,), f"the shape is that of the part {self.spans} of {self.shape}")
        return x.with_shape(self.shape)

    def kernel(self, out: Array, x: Array) -> Array:
        out[...] = 0
        out[(*index_of(self.spans), ...)] = x
        return out

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (Part(self.spans)(g),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return Place(((0, size, 1), *self.spans), (size, *self.shape))(x)


def index_of(spans: tuple[Any, ...]) -> tuple[Any, ...]:
    """NumPy's index of canonical spans; a negative stop means "through index 0"."""
    return tuple([s if isinstance(s, int) else slice(s[0], s[1] if s[1] >= 0 else None, s[2]) for s in spans])


def inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes ``axes``."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


@public
def reshape(x: Any, shape: int | Shape) -> Expr:
    """``x`` in another shape; one size may be −1 and is found from the others."""
    (x,) = as_operands((x,))
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if sizes.count(-1) == 1:
        rest = -math.prod(sizes)
        if rest == 0 or x.size % rest:
            raise OperandError(f"reshape: given {x.type} and the shape {sizes}", rule="the elements fill the given sizes")
        sizes = tuple([x.size // rest if size == -1 else size for size in sizes])
    if any(size < 0 for size in sizes):
        raise OperandError(f"reshape: given the shape {sizes}", rule="sizes are not negative, and at most one is −1")
    return Reshape(tuple(map(int, sizes)))(x)


@public
def transpose(x: Any, axes: tuple[int, ...] | None = None) -> Expr:
    """``x`` with its axes in another order, reversed for None."""
    (x,) = as_operands((x,))
    order = range(x.ndim)[::-1] if axes is None else [normalize_axis(int(axis), x.ndim, "transpose") for axis in axes]
    return Transpose(tuple(order))(x)


@public
def broadcast_to(x: Any, shape: Shape) -> Expr:
    """``x`` repeated to a shape that it can be broadcast to; itself when it has that shape."""
    (x,) = as_operands((x,))
    return x if x.shape == tuple(shape) else BroadcastTo(tuple(shape))(x)


@public
def cast(x: Any, dtype: Any) -> Expr:
    """``x`` with its elements converted; itself when it has that dtype."""
    (x,) = as_operands((x,))
    return x if x.dtype == np.dtype(dtype) else Cast(np.dtype(dtype))(x)


@public
def stack(arrays: Any, axis: int = 0) -> Expr:
    """Tensors of one shape as the members of a new axis."""
    stacked = Stack()(*arrays)
    place = normalize_axis(axis, stacked.ndim, "stack")
    if place == 0:
        return stacked
    return Transpose((*range(1, place + 1), 0, *range(place + 1, stacked.ndim)))(stacked)


@public
def concatenate(arrays: Any, axis: int = 0) -> Expr:
    """Tensors joined along an axis that they have."""
    operands = as_operands(tuple(arrays))
    if not operands:
        raise OperandError("concatenate: given nothing", rule="there is at least one operand")
    return Concatenate(normalize_axis(axis, operands[0].ndim, "concatenate"))(*operands)


@public
def expand_dims(x: Any, axis: int) -> Expr:
    """``x`` with a new axis of size 1 at a place."""
    (x,) = as_operands((x,))
    place = normalize_axis(axis, x.ndim + 1, "expand_dims")
    return Reshape((*x.shape[:place], 1, *x.shape[place:]))(x)


@public
def squeeze(x: Any, axis: int | None = None) -> Expr:
    """``x`` without an axis of size 1, without all of them for None."""
    (x,) = as_operands((x,))
    if axis is None:
        return Reshape(tuple([size for size in x.shape if size != 1]))(x)
    place = normalize_axis(axis, x.ndim, "squeeze")
    if x.shape[place] != 1:
        raise OperandError(f"squeeze: axis {axis} of {x.type}", rule="only an axis of size 1 is dropped")
    return Reshape((*x.shape[:place], *x.shape[place + 1 :]))(x)


@public
def flatten(x: Any, start: int = 0, end: int = -1) -> Expr:
    """``x`` with the axes start … end (both included) merged into one."""
    (x,) = as_operands((x,))
    if x.ndim == 0:
        return Reshape((1,))(x)
    first, last = normalize_axis(start, x.ndim, "flatten"), normalize_axis(end, x.ndim, "flatten")
    if last < first:
        raise OperandError(f"flatten: axes {start} … {end} of {x.type}", rule="the first axis is not after the last")
    return Reshape((*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))(x)


@public
def getitem(x: Expr, index: Any) -> Expr:
    """The part of ``x`` at ints, slices, None and Ellipsis, as NumPy indexes."""
    entries = index if isinstance(index, tuple) else (index,)
    given = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if sum(entry is Ellipsis for entry in entries) > 1 or given > x.ndim:
        raise OperandError(f"index {index!r} of {x.type}", rule=f"there are at most {x.ndim} indices and one Ellipsis")
    if not any(entry is Ellipsis for entry in entries):
        entries = (*entries, Ellipsis)
    spans: list[Any] = []
    shape: list[int] = []
    for entry in entries:
        axis = len(spans)
        if entry is None:
            shape.append(1)
        elif entry is Ellipsis:
            for size in x.shape[axis : axis + x.ndim - given]:
                spans.append((0, size, 1))
                shape.append(size)
        elif isinstance(entry, slice):
            spans.append(entry.indices(x.shape[axis]))
            shape.append(len(range(*spans[-1])))
        elif isinstance(entry, (int, np.integer)) and not isinstance(entry, bool):
            spans.append(_position(int(entry), x, axis))
        else:
            raise OperandError(
                f"index {entry!r} of {x.type}",
                rule="an expression is indexed by ints, slices, None and Ellipsis",
                fix="use ex.where to choose by a condition",
            )
    part = x if all(span == (0, n, 1) for span, n in zip(spans, x.shape, strict=True)) else Part(tuple(spans))(x)
    return part if part.shape == tuple(shape) else Reshape(tuple(shape))(part)


def _position(index: int, x: Expr, axis: int) -> int:
    size = x.shape[axis]
    if not -size <= index < size:
        raise OperandError(f"index {index} of axis {axis} of {x.type}", rule=f"an index lies in {-size} … {size - 1}")
    return index % size
