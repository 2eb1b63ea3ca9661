"""The type of a value: shape, dtype and device. Types are interned: equal types are one object."""

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
    """Shape, dtype and device of a tensor; hashed and compared by identity, since equal types are one object."""

    __slots__ = ("device", "dtype", "plain", "shape", "size", "sizes")
    shape: Shape
    dtype: np.dtype[Any]
    device: Device
    size: int
    """number of elements"""
    sizes: Sizes
    """the shape with names for its sizes: rows, columns …"""
    plain: bool
    """NumPy's own numbers in cpu's memory: kernels may be joined, cut and replaced"""

    def __new__(cls, shape: Shape, dtype: DTypeLike = np.float32, device: Device = cpu) -> TensorType:
        """The one type of a shape, dtype and device; raises OperandError for sizes or elements that no tensor has."""
        try:
            return _interned[shape, dtype, device]
        except (KeyError, TypeError):
            pass
        exact = as_dtype(dtype)
        if not is_element(exact):
            raise OperandError(
                f"elements of dtype {exact}",
                rule="tensors hold booleans, integers, floating or complex numbers, and elements of declared types",
                fix="convert the array first, for instance with .astype(np.float32), or declare an ex.ElementType",
            )
        canonical = (as_shape(shape, "a type"), exact, device)
        if not is_addressable(canonical[0], exact):
            raise OperandError(
                f"an array of {exact.name} with {len(canonical[0])} axes: {'×'.join(map(str, canonical[0][:AXES]))}",
                rule=f"an array must have at most {AXES} axes, and 2⁶³ − 1 bytes with its empty axes left out",
            )
        made = object.__new__(cls)
        made.shape, made.dtype, made.device = canonical
        made.size, made.sizes = math.prod(made.shape), Sizes(made.shape)
        made.plain = device is cpu and exact.kind in "biufc"
        return _interned.setdefault(canonical, made)  # another thread may have been first

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def category(self) -> str:
        """MetaNN's word for the rank: scalar, vector, matrix, three-d array, then "n-d array"."""
        return category_of(self.rank)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, stored densely."""
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: Shape) -> TensorType:
        """The type with another shape."""
        return TensorType(shape, self.dtype, self.device)

    def with_dtype(self, dtype: DTypeLike) -> TensorType:
        """The type with another dtype."""
        return TensorType(self.shape, np.dtype(dtype), self.device)

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.shape)) if self.shape else "scalar"
        place = "" if self.device is cpu else f" on {self.device.name}"
        return f"{shape} {dtype_name(self.dtype)}{place}"

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorType, (self.shape, self.dtype, self.device)


_interned: dict[Any, TensorType] = {}


class TupleType:
    """The type of a node with several outputs; interned like TensorType."""

    __slots__ = ("parts",)
    parts: tuple[TensorType, ...]

    def __new__(cls, parts: tuple[TensorType, ...]) -> TupleType:
        """The one type of these outputs."""
        found = _interned_tuples.get(parts)
        if found is None:
            made = object.__new__(cls)
            made.parts = parts
            found = _interned_tuples.setdefault(parts, made)
        return found

    @property
    def device(self) -> Device:
        """Where the parts live."""
        return self.parts[0].device if self.parts else cpu

    @property
    def plain(self) -> bool:
        """All parts are NumPy's own numbers in cpu's memory."""
        return all(part.plain for part in self.parts)

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for part in self.parts)

    def __repr__(self) -> str:
        return "(" + ", ".join(map(repr, self.parts)) + ")"

    def __reduce__(self) -> tuple[Any, ...]:
        return TupleType, (self.parts,)


_interned_tuples: dict[tuple[TensorType, ...], TupleType] = {}

AnyType: TypeAlias = TensorType | TupleType


def is_addressable(shape: Shape, dtype: np.dtype[Any]) -> bool:
    """Whether NumPy can have an array of this shape; it counts an empty axis as one of size 1."""
    size = max(dtype.itemsize, 1)
    for length in shape:
        size *= length or 1
        if size > BYTES:
            return False
    return len(shape) <= AXES


def broadcast_shapes(*shapes: Shape) -> Shape | None:
    """The shape that NumPy broadcasts the shapes to, None where they do not fit."""
    rank = max(map(len, shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size != 1:
                if result[axis] not in (1, size):
                    return None
                result[axis] = size
    return tuple(result)


def whole(value: Any, what: str) -> int:
    """A whole number as an int; raises OperandError for anything else, 2.0 included."""
    try:
        return operator.index(value)
    except TypeError:
        raise OperandError(f"{what}: {value!r}", rule="this is a whole number", fix="use an int") from None


def as_shape(shape: Any, what: str) -> Shape:
    """Sizes as a tuple of ints; raises OperandError where one is no whole number or negative."""
    try:
        sizes = tuple(shape)
    except TypeError:
        sizes = (shape,)
    found = tuple([whole(size, f"{what} of shape {shape!r}") for size in sizes])
    if any(size < 0 for size in found):
        raise OperandError(f"{what} of shape {found}", rule="sizes are not negative")
    return found


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """NumPy's dtype in the machine's byte order; raises OperandError where NumPy knows none."""
    try:
        if dtype is None:
            raise TypeError("None names no dtype")
        found: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")
        return found
    except (TypeError, ValueError) as error:
        raise OperandError(
            f"the dtype {dtype!r}: {error}", rule="a dtype is one of NumPy's", fix="for instance np.float32"
        ) from None


def normalize_axis(axis: int, rank: int, operation: str) -> int:
    """An axis counted from the front; raises OperandError when the rank has no such axis."""
    axis = whole(axis, f"{operation}: axis")
    if not -rank <= axis < rank:
        raise OperandError(
            f"{operation}: axis {axis} of a tensor of rank {rank}",
            rule=f"an axis lies in {-rank} … {rank - 1}" if rank else "a scalar has no axes",
            fix="name an axis that the operand has",
        )
    return axis % rank


def normalize_axes(axes: int | tuple[int, ...] | None, rank: int, operation: str) -> tuple[int, ...]:
    """Sorted axes counted from the front, all of them for None; a repeated axis raises OperandError."""
    if axes is None:
        return tuple(range(rank))
    if type(axes) is int and -rank <= axes < rank:
        return (axes % rank,)
    given = tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)
    found = tuple(sorted(normalize_axis(axis, rank, operation) for axis in given))
    if len(set(found)) != len(found):
        raise OperandError(
            f"{operation}: axes {given} of a tensor of rank {rank}", rule="each axis once", fix="drop the repeated axis"
        )
    return found
