"""Operations that move elements and compute none: shapes, order of axes, repetition, conversion."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.examples import Example, real
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import Operation, as_operands
from explorer.core.registry import public
from explorer.core.types.custom_dtypes import converted, element_of, is_floating
from explorer.core.types.tensor_type import (
    AnyType,
    Array,
    Shape,
    TensorType,
    as_dtype,
    as_shape,
    broadcast_shapes,
    normalize_axes,
    normalize_axis,
    whole,
)
from explorer.ops import base


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
        return (base.sum_to(g, x.shape),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        ones = (1,) * (len(self.shape) - (x.ndim - 1))
        return BroadcastTo((size, *self.shape))(reshape(x, (size, *ones, *x.shape[1:])))


class Cast(Movement):
    """The elements converted to another dtype."""

    dtype: np.dtype[Any]
    elementwise = True
    takes_elements = True
    examples = (
        Example(real(2, 3), dtype=np.dtype("float64")),
        Example(real(3, dtype="float32"), dtype=np.dtype("float64")),
    )

    def infer(self, x: TensorType) -> TensorType:
        if x.dtype.kind == "c" and self.dtype.kind not in "bc":
            raise self.refuse(
                (x,), f"complex elements have no place in {self.dtype}: their imaginary part would be lost"
            )
        return x.with_dtype(self.dtype)

    def kernel(self, out: Array, x: Array) -> Array:
        known = element_of(x.dtype) is None and element_of(out.dtype) is None
        np.copyto(out, x if known else converted(x, out.dtype), casting="unsafe")
        return out

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr | None]:
        return (base.cast(g, x.dtype) if is_floating(x.dtype) or x.dtype.kind == "c" else None,)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return self(x)


class StopGradient(Movement):
    """The elements themselves, through which no gradient flows."""

    view = True
    elementwise = True
    monotone = True
    idempotent = True
    nondifferentiable = "the gradient stops here, as asked for"
    examples = (Example(real(2, 3)), Example(real()))

    def infer(self, x: TensorType) -> TensorType:
        return x

    def kernel(self, out: None, x: Array) -> Array:
        return x.view()

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return self(x)


def vector_of_scalar(x: Expr, axis: Any) -> Expr:
    """``x``; a scalar as a vector of one element where its axis 0 or −1 is asked for, as NumPy has it."""
    return Reshape((1,))(x) if x.ndim == 0 and axis in (0, -1) else x


def inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes ``axes``."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


@public
def reshape(x: Any, shape: int | Shape) -> Expr:
    """``x`` in another shape; one size may be −1 and is found from the others."""
    (x,) = as_operands((x,))
    given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    sizes = tuple([whole(size, f"reshape to {shape}") for size in given])
    if sizes.count(-1) == 1:
        rest = -math.prod(sizes)
        if rest == 0 or x.size % rest:
            raise OperandError(
                f"reshape: given {x.type} and the shape {sizes}", rule="the elements fill the given sizes"
            )
        sizes = tuple([x.size // rest if size == -1 else size for size in sizes])
    if any(size < 0 for size in sizes):
        raise OperandError(f"reshape: given the shape {sizes}", rule="sizes are not negative, and at most one is −1")
    return Reshape(sizes)(x)


@public
def transpose(x: Any, axes: tuple[int, ...] | None = None) -> Expr:
    """``x`` with its axes in another order, reversed for None."""
    (x,) = as_operands((x,))
    return Transpose(tuple(range(x.ndim))[::-1] if axes is None else _order(x, axes, "transpose"))(x)


@public
def inverse_transpose(x: Any, axes: tuple[int, ...]) -> Expr:
    """``x`` as it was before ``transpose(…, axes)``: axis i of ``x`` becomes axis axes[i] (MetaNN: PermuteInv)."""
    (x,) = as_operands((x,))
    return Transpose(inverse(_order(x, axes, "inverse_transpose")))(x)


def _order(x: Expr, axes: Any, operation: str) -> tuple[int, ...]:
    """Axes counted from the front, each of them once."""
    if not isinstance(axes, (tuple, list)):
        raise OperandError(
            f"{operation}: given {x.type} and the axes {axes!r}",
            rule="axes are a tuple that names each axis once",
            fix=f"for instance {tuple(range(x.ndim))[::-1]}",
        )
    order = tuple([normalize_axis(axis, x.ndim, operation) for axis in axes])
    if sorted(order) != list(range(x.ndim)):
        raise OperandError(
            f"{operation}: given {x.type} and the axes {axes!r}",
            rule=f"they name each of the axes 0 … {x.ndim - 1} once",
        )
    return order


@public
def broadcast_to(x: Any, shape: Shape) -> Expr:
    """``x`` repeated to a shape that it can be broadcast to."""
    (x,) = as_operands((x,))
    return BroadcastTo(as_shape(shape, "broadcast_to"))(x)


@public
def cast(x: Any, dtype: Any) -> Expr:
    """``x`` with its elements converted."""
    (x,) = as_operands((x,))
    return Cast(as_dtype(dtype))(x)


@public
def expand_dims(x: Any, axis: int | tuple[int, ...]) -> Expr:
    """``x`` with a new axis of size 1 at a place, or at several places of the result."""
    (x,) = as_operands((x,))
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    places = normalize_axes(axis, x.ndim + count, "expand_dims")
    sizes = iter(x.shape)
    return Reshape(tuple([1 if place in places else next(sizes) for place in range(x.ndim + count)]))(x)


@public
def squeeze(x: Any, axis: int | tuple[int, ...] | None = None) -> Expr:
    """``x`` without an axis of size 1 or several, without all of them for None."""
    (x,) = as_operands((x,))
    if axis is None:
        return Reshape(tuple([size for size in x.shape if size != 1]))(x)
    places = normalize_axes(() if x.ndim == 0 and axis in (0, -1) else axis, x.ndim, "squeeze")
    if any(x.shape[place] != 1 for place in places):
        raise OperandError(
            f"squeeze: axis {axis} of {x.type}",
            rule="only axes of size 1 can be dropped",
            fix="use .sum(axis), .max(axis) … to combine the elements of an axis, or x[…] to choose one",
        )
    return Reshape(tuple([size for place, size in enumerate(x.shape) if place not in places]))(x)


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
