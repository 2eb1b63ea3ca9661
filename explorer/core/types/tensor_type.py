"""Types of values: shape, dtype and device.

Types are interned, because recording looks up types for each operation: equal types are one object, compared by
identity and hashed without hashing their shapes.
"""

from __future__ import annotations

import math
import operator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from explorer.core.errors import OperandError
from explorer.core.memory_budget import AXES, BYTES
from explorer.core.shape import Sizes, category_of
from explorer.core.types.custom_dtypes import dtype_name, is_element
from explorer.core.types.device import Device, cpu

Shape: TypeAlias = tuple[int, ...]
Array: TypeAlias = NDArray[Any]
Number: TypeAlias = bool | int | float | complex


class TensorType:
    """Shape, dtype and device of a tensor; hashed and compared by identity, because equal types are one object.

    >>> t = ex.TensorType((2, 3), "float32")
    >>> t, t.rank, t.nbytes
    (2×3 float32, 2, 24)
    >>> t is ex.TensorType((2, 3), "float32")
    True
    """

    __slots__ = ("device", "dtype", "nbytes", "numeric", "plain", "shape", "size", "sizes")
    shape: Shape
    dtype: np.dtype[Any]
    device: Device
    size: int
    """number of elements"""
    nbytes: int
    """number of bytes of the elements, if they are stored densely"""
    sizes: Sizes
    """shape with named sizes: rows, columns …"""
    numeric: bool
    """whether elements have one of NumPy's own numeric dtypes, on any device"""
    plain: bool
    """whether elements have one of NumPy's own numeric dtypes and are in cpu memory, so kernels may be fused, tiled and
    replaced
    """

    def __new__(cls, shape: Shape, dtype: DTypeLike = np.float32, device: Device = cpu) -> TensorType:
        """Return the interned type; raise OperandError for an invalid shape or dtype."""
        try:
            # Canonical arguments, the usual case, need one look-up; others (a list, a dtype name) are not found or
            # unhashable.
            return _interned[shape, dtype, device]
        except (KeyError, TypeError):
            pass
        exact = as_dtype(dtype)
        if not is_element(exact):
            raise OperandError(
                f"elements of dtype {exact}",
                rule="elements must be booleans, integers, real or complex numbers, or of a declared element type",
                fix="convert the array first, for instance with .astype(np.float32), or declare an ex.ElementType",
            )
        canonical = (as_shape(shape, "a type"), exact, device)
        if not is_addressable(canonical[0], exact):
            raise OperandError(
                f"an array of {exact.name} with {len(canonical[0])} axes: {'×'.join(map(str, canonical[0][:AXES]))}",
                rule=f"an array must have at most {AXES} axes, and at most 2⁶³ − 1 bytes, not counting empty axes",
                fix="ex.reshape joins axes; most programs have at most six",
            )
        new = object.__new__(cls)
        new.shape, new.dtype, new.device = canonical
        new.size, new.sizes = math.prod(new.shape), Sizes(new.shape)
        new.nbytes = new.size * exact.itemsize
        new.numeric = exact.kind in "biufc"
        new.plain = device is cpu and new.numeric
        return _interned.setdefault(canonical, new)  # another thread may have created the same type in the meantime

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def category(self) -> str:
        """MetaNN's name for the number of dimensions: scalar, vector, matrix, three-d array, then "n-d array"."""
        return category_of(self.rank)

    def with_shape(self, shape: Shape) -> TensorType:
        """Return this type with another shape."""
        return TensorType(shape, self.dtype, self.device)

    def with_dtype(self, dtype: DTypeLike) -> TensorType:
        """Return this type with another dtype."""
        return TensorType(self.shape, np.dtype(dtype), self.device)

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.shape)) if self.shape else "scalar"
        device_text = "" if self.device is cpu else f" on {self.device.name}"
        return f"{shape} {dtype_name(self.dtype)}{device_text}"

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorType, (self.shape, self.dtype, self.device)


_interned: dict[Any, TensorType] = {}


class TupleType:
    """Type of a node with several outputs; interned like TensorType."""

    __slots__ = ("nbytes", "parts")
    parts: tuple[TensorType, ...]
    nbytes: int
    """number of bytes of all parts"""

    def __new__(cls, parts: tuple[TensorType, ...]) -> TupleType:
        """Return the interned type for these outputs."""
        interned = _interned_tuples.get(parts)
        if interned is None:
            new = object.__new__(cls)
            new.parts = parts
            new.nbytes = sum([part.nbytes for part in parts])
            interned = _interned_tuples.setdefault(parts, new)
        return interned

    @property
    def device(self) -> Device:
        """Device of the parts."""
        return self.parts[0].device if self.parts else cpu

    @property
    def numeric(self) -> bool:
        """Whether all parts have NumPy's own numeric dtypes, on any device."""
        return all(part.numeric for part in self.parts)

    @property
    def plain(self) -> bool:
        """Whether all parts have NumPy's own numeric dtypes in cpu memory."""
        return all(part.plain for part in self.parts)

    def __repr__(self) -> str:
        return "(" + ", ".join(map(repr, self.parts)) + ")"

    def __reduce__(self) -> tuple[Any, ...]:
        return TupleType, (self.parts,)


_interned_tuples: dict[tuple[TensorType, ...], TupleType] = {}

AnyType: TypeAlias = TensorType | TupleType


def is_addressable(shape: Shape, dtype: np.dtype[Any]) -> bool:
    """Return whether NumPy can create an array of this shape and dtype, treating an empty axis like one of size 1."""
    size = max(dtype.itemsize, 1)
    for length in shape:
        # NumPy computes strides with size 1 for empty axes, so it rejects some arrays without elements.
        size *= length or 1
        if size > BYTES:
            return False
    return len(shape) <= AXES


def broadcast_shapes(*shapes: Shape) -> Shape | None:
    """Return the shape to which the given shapes are broadcast, or None if they are incompatible."""
    rank = max(map(len, shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size != 1:
                if result[axis] not in (1, size):
                    return None
                result[axis] = size
    return tuple(result)


def as_integer(value: Any, what: str) -> int:
    """Return an integer, called ``what`` in errors, as an int; raise OperandError for anything else, including 2.0."""
    try:
        return operator.index(value)
    except TypeError:
        raise OperandError(
            f"{what}: {value!r}", rule="the value must be an integer", fix="use an int: 2, not 2.0"
        ) from None


def as_shape(shape: Any, what: str) -> Shape:
    """Return sizes as a tuple of ints; raise OperandError for a size that is negative or not an integer."""
    try:
        sizes = tuple(shape)
    except TypeError:
        sizes = (shape,)
    checked = tuple([as_integer(size, f"{what} of shape {shape!r}") for size in sizes])
    if any(size < 0 for size in checked):
        raise OperandError(
            f"{what} of shape {checked}",
            rule="sizes must not be negative",
            fix="0 is the smallest size; only ex.reshape accepts −1",
        )
    return checked


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the NumPy dtype in native byte order; raise OperandError for anything that NumPy rejects."""
    try:
        if dtype is None:
            raise TypeError("None is not a dtype")
        exact: np.dtype[Any] = np.dtype(dtype)
        native = exact if exact.isnative else exact.newbyteorder("=")
        # Use NumPy's own dtype object, because the buffer protocol does not support copies of it.
        if native.isbuiltin == 0 and native.kind in "biufc" and native.metadata is None:
            native = np.dtype(native.str)
        return native
    except (TypeError, ValueError, SyntaxError) as error:
        raise OperandError(
            f"the dtype {dtype!r}: {error}", rule="a dtype must be one of NumPy's", fix="dtype=np.float32, for instance"
        ) from None


def normalize_axis(axis: int, rank: int, operation: str) -> int:
    """Return ``axis`` as a nonnegative index; raise OperandError if it does not exist in ``rank`` dimensions."""
    axis = as_integer(axis, f"{operation}: axis")
    if not -rank <= axis < rank:
        raise OperandError(
            f"{operation}: axis {axis} of a tensor of rank {rank}",
            rule=f"the axis must be in {-rank} … {rank - 1}" if rank else "a scalar has no axis",
            fix="choose an axis that the operand has",
        )
    return axis % rank


def normalize_axes(axes: int | tuple[int, ...] | None, rank: int, operation: str) -> tuple[int, ...]:
    """Return sorted axes as nonnegative indices; None: all axes. Raise OperandError for a missing or repeated axis."""
    if axes is None:
        return tuple(range(rank))
    if type(axes) is int and -rank <= axes < rank:
        return (axes % rank,)
    requested = tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)
    normalized = tuple(sorted(normalize_axis(axis, rank, operation) for axis in requested))
    if len(set(normalized)) != len(normalized):
        raise OperandError(
            f"{operation}: axes {requested} of a tensor of rank {rank}",
            rule="each axis must be given only once",
            fix="drop the repeated axis",
        )
    return normalized
