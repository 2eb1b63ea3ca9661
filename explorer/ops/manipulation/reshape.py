"""Reshaping, transposition, broadcasting and dtype conversion.

Reshape, Transpose and BroadcastTo return views, so their kernels allocate nothing. The exception is a reshape that
strides cannot express, for which the plan allocates memory and copies the elements (plan/memory/copied_reshapes.py).

(ONNX: Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Expand, Cast; PNNX: torch.reshape, Tensor.view, torch.permute,
Tensor.expand and similar.)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.ir.operation_examples import Example, real
from explorer.core.registry import public
from explorer.core.types.custom_dtypes import converted, element_of, is_floating
from explorer.core.types.tensor_type import (
    AnyType,
    Array,
    Shape,
    TensorType,
    as_dtype,
    as_integer,
    as_shape,
    broadcast_shapes,
    normalize_axes,
    normalize_axis,
)
from explorer.ops import base

__all__ = [
    "broadcast_to",
    "cast",
    "expand_dims",
    "flatten",
    "inverse_transpose",
    "reshape",
    "squeeze",
    "stop_gradient",
    "transpose",
]


class Movement(Operation, abstract=True):
    """Base class of linear operations that move elements without arithmetic."""

    linear: ClassVar[bool] = True
    family = "movement"

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0


class Reshape(Movement):
    """The same elements, in row-major order, with another shape."""

    shape: Shape
    accepts_strings = True
    view = True
    examples = (Example(real(2, 3, 4), shape=(6, 4)), Example(real(), shape=(1, 1)))

    def infer(self, x: TensorType) -> TensorType:
        if math.prod(self.shape) != x.size:
            raise self.refuse(
                (x,),
                f"the new shape {self.shape} must have {x.size} elements like the old one, not {math.prod(self.shape)}",
                "give sizes with this product, or -1 for one of them",
            )
        return x.with_shape(self.shape)

    def kernel(self, out: Array | None, x: Array) -> Array:
        if out is None:
            return x.reshape(self.shape)
        np.copyto(out.reshape(x.shape), x)
        return out

    def bind_kernel(self, out: Array | None, x: Array) -> Callable[[], Any]:
        if out is None:
            return super().bind_kernel(out, x)
        return functools.partial(np.copyto, out.reshape(x.shape), x)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (Reshape(x.shape)(g),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return Reshape((size, *self.shape))(x)


class Transpose(Movement):
    """Permutation of axes: axis i of the result is axis axes[i] of x."""

    axes: tuple[int, ...]
    accepts_strings = True
    view = True
    examples = (Example(real(2, 3, 4), axes=(2, 0, 1)), Example(real(2, 3), axes=(1, 0)))

    def infer(self, x: TensorType) -> TensorType:
        if sorted(self.axes) != list(range(x.rank)):
            raise self.refuse((x,), f"axes {self.axes} must contain each of 0 … {x.rank - 1} once")
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
    accepts_strings = True
    view = True
    examples = (Example(real(3, 1), shape=(2, 3, 4)), Example(real(), shape=(2,)))

    def infer(self, x: TensorType) -> TensorType:
        if broadcast_shapes(x.shape, self.shape) != self.shape:
            raise self.refuse((x,), f"the shape must be one that broadcasts to {self.shape}")
        return x.with_shape(self.shape)

    def kernel(self, out: None, x: Array) -> Array:
        return np.broadcast_to(x, self.shape)

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (base.sum_to(g, x.shape),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        # new axes must follow the batch axis, but broadcasting without a reshape would put them in front of it
        ones = (1,) * (len(self.shape) - (x.ndim - 1))
        return BroadcastTo((size, *self.shape))(reshape(x, (size, *ones, *x.shape[1:])))


class Cast(Movement):
    """Elements converted to another dtype."""

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
                (x,), f"complex elements cannot be converted to {self.dtype}, which would lose their imaginary part"
            )
        return x.with_dtype(self.dtype)

    def kernel(self, out: Array, x: Array) -> Array:
        # user-defined dtypes store numbers of another dtype, so they are decoded and encoded instead of cast
        is_plain = element_of(x.dtype) is None and element_of(out.dtype) is None
        np.copyto(out, x if is_plain else converted(x, out.dtype), casting="unsafe")
        return out

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr | None]:
        # integers have no gradient, so the gradient stops at a cast from integers
        return (base.cast(g, x.dtype) if is_floating(x.dtype) or x.dtype.kind == "c" else None,)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return self(x)


class StopGradient(Movement):
    """Identity function whose gradient is not propagated."""

    view = True
    elementwise = True
    monotone = True
    idempotent = True
    nondifferentiable = "the gradient stops here, as requested"
    examples = (Example(real(2, 3)), Example(real()))

    def infer(self, x: TensorType) -> TensorType:
        return x

    def kernel(self, out: None, x: Array) -> Array:
        return x.view()

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return self(x)


stop_gradient = StopGradient()


def vector_of_scalar(x: Expr, axis: Any) -> Expr:
    """Return ``x``; if it is a scalar and ``axis`` is 0 or −1, return it as a vector of one element, as NumPy does."""
    return Reshape((1,))(x) if x.ndim == 0 and axis in (0, -1) else x


def inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the permutation that is the inverse of ``axes``."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


@public
def reshape(x: Any, shape: int | Shape) -> Expr:
    """Reshape ``x``; one size may be −1 and is then computed from the others.

    Elements stay in row-major order, and the result is a view if strides can express it. Raises OperandError if the
    number of elements differs.

    >>> ex.reshape(np.ones((2, 6)), (-1, 3)).shape
    (4, 3)
    """
    (x,) = as_operands((x,))
    requested = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    sizes = tuple([as_integer(size, f"reshape to {shape}") for size in requested])
    if sizes.count(-1) == 1:
        # product of the other sizes; negated, because −1 is one of the factors
        rest = -math.prod(sizes)
        if rest == 0 or x.size % rest:
            raise OperandError(
                f"reshape of {x.type} to the shape {sizes}",
                rule="the sizes must multiply to the number of elements",
                fix=f"write −1 for one axis; the sizes must multiply to {x.size}",
            )
        sizes = tuple([x.size // rest if size == -1 else size for size in sizes])
    if any(size < 0 for size in sizes):
        raise OperandError(
            f"reshape to the shape {sizes}",
            rule="sizes must not be negative, except for at most one −1",
            fix="write −1 for one axis, whose size follows from the others",
        )
    return Reshape(sizes)(x)


@public
def transpose(x: Any, axes: tuple[int, ...] | None = None) -> Expr:
    """Permute the axes of ``x``; if ``axes`` is None, reverse their order.

    >>> ex.transpose(np.zeros((2, 3, 4))).shape
    (4, 3, 2)
    """
    (x,) = as_operands((x,))
    return Transpose(tuple(range(x.ndim))[::-1] if axes is None else _order(x, axes, "transpose"))(x)


@public
def inverse_transpose(x: Any, axes: tuple[int, ...]) -> Expr:
    """Invert ``transpose(…, axes)``: axis i of ``x`` becomes axis axes[i] (MetaNN: PermuteInv).

    >>> ex.inverse_transpose(ex.transpose(np.zeros((2, 3, 4)), (1, 2, 0)), (1, 2, 0)).shape
    (2, 3, 4)
    """
    (x,) = as_operands((x,))
    return Transpose(inverse(_order(x, axes, "inverse_transpose")))(x)


def _order(x: Expr, axes: Any, operation: str) -> tuple[int, ...]:
    """Return ``axes`` with negative axes counted from the front.

    Raises OperandError unless it is a permutation of all axes.
    """
    if not isinstance(axes, (tuple, list)):
        raise OperandError(
            f"{operation} of {x.type} with the axes {axes!r}",
            rule="axes must be a tuple that contains each axis once",
            fix=f"for instance {tuple(range(x.ndim))[::-1]}",
        )
    order = tuple([normalize_axis(axis, x.ndim, operation) for axis in axes])
    if sorted(order) != list(range(x.ndim)):
        raise OperandError(
            f"{operation} of {x.type} with the axes {axes!r}",
            rule=f"axes must contain each of 0 … {x.ndim - 1} once",
            fix=f"ex.{operation}(x, {tuple(reversed(range(x.ndim)))})",
        )
    return order


@public
def broadcast_to(x: Any, shape: Shape) -> Expr:
    """Broadcast ``x`` to ``shape``.

    >>> ex.evaluate(ex.broadcast_to(np.array([1, 2]), (2, 2)))
    array([[1, 2],
           [1, 2]])
    """
    (x,) = as_operands((x,))
    return BroadcastTo(as_shape(shape, "broadcast_to"))(x)


@public
def cast(x: Any, dtype: Any) -> Expr:
    """Convert the elements of ``x`` to another dtype.

    Numbers are cast with NumPy's "unsafe" rule: fractions are truncated and integers wrap around. User-defined dtypes
    are converted with their ``decode`` and ``encode`` methods. The gradient is cast back to the operand's dtype;
    integers have no gradient. Raises OperandError if ``x`` is complex and the dtype is real.

    >>> ex.evaluate(ex.cast(np.array([1.7, -1.7]), "int64"))
    array([ 1, -1])
    """
    (x,) = as_operands((x,))
    return Cast(as_dtype(dtype))(x)


@public
def expand_dims(x: Any, axis: int | tuple[int, ...]) -> Expr:
    """Insert axes of size 1; ``axis`` is one position or several positions in the result's shape.

    >>> ex.expand_dims(np.zeros((2, 3)), 1).shape
    (2, 1, 3)
    """
    (x,) = as_operands((x,))
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    positions = normalize_axes(axis, x.ndim + count, "expand_dims")
    sizes = iter(x.shape)
    return Reshape(tuple([1 if position in positions else next(sizes) for position in range(x.ndim + count)]))(x)


@public
def squeeze(x: Any, axis: int | tuple[int, ...] | None = None) -> Expr:
    """Remove the axes ``axis`` (one or several), which must have size 1; None removes all axes of size 1.

    >>> ex.squeeze(np.zeros((2, 1, 3, 1))).shape
    (2, 3)
    """
    (x,) = as_operands((x,))
    if axis is None:
        return Reshape(tuple([size for size in x.shape if size != 1]))(x)
    # NumPy accepts the axes 0 and −1 for a scalar
    positions = normalize_axes(() if x.ndim == 0 and axis in (0, -1) else axis, x.ndim, "squeeze")
    if any(x.shape[position] != 1 for position in positions):
        raise OperandError(
            f"squeeze: axis {axis} of {x.type}",
            rule="removed axes must have size 1",
            fix="use .sum(axis), .max(axis) … to combine the elements of an axis, or x[…] to select one",
        )
    return Reshape(tuple([size for position, size in enumerate(x.shape) if position not in positions]))(x)


@public
def flatten(x: Any, start: int = 0, end: int = -1) -> Expr:
    """Merge the axes ``start`` to ``end``, both included, of ``x`` into one axis.

    >>> ex.flatten(np.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """
    (x,) = as_operands((x,))
    if x.ndim == 0:
        return Reshape((1,))(x)
    first, last = normalize_axis(start, x.ndim, "flatten"), normalize_axis(end, x.ndim, "flatten")
    if last < first:
        raise OperandError(
            f"flatten: axes {start} … {end} of {x.type}",
            rule="start must not be after end",
            fix="ex.flatten(x, 1) keeps the first axis and merges all others",
        )
    return Reshape((*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))(x)
