"""The type of a value: shape, dtype and device. Types are interned: equal types are one object."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from explorer.core.device import Device, cpu
from explorer.core.errors import OperandError

Shape: TypeAlias = tuple[int, ...]
Array: TypeAlias = NDArray[Any]
Number: TypeAlias = bool | int | float | complex

_CATEGORIES = ("scalar", "vector", "matrix", "three-d array")


class TensorType:
    """Shape, dtype and device of a tensor; hashed and compared by identity, since equal types are one object."""

    __slots__ = ("device", "dtype", "shape", "size")
    shape: Shape
    dtype: np.dtype[Any]
    device: Device
    size: int
    """number of elements"""

    def __new__(cls, shape: Shape, dtype: DTypeLike = np.float32, device: Device = cpu) -> TensorType:
        key = (shape, dtype, device)
        try:
            return _interned[key]
        except KeyError:
            pass
        exact = np.dtype(dtype)
        if exact.hasobject or exact.kind in "SUVMm":
            raise OperandError(
                f"elements of dtype {exact}",
                rule="tensors hold booleans, integers, floating or complex numbers",
                fix="convert the array first, for instance with .astype(np.float32)",
            )
        canonical = (tuple(int(n) for n in shape), exact, device)
        found = _interned.get(canonical)
        if found is None:
            found = object.__new__(cls)
            found.shape, found.dtype, found.device = canonical
            found.size = math.prod(found.shape)
            _interned[canonical] = found
        _interned[key] = found
        return found

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def category(self) -> str:
        """MetaNN's word for the rank: scalar, vector, matrix, three-d array, then "n-d array"."""
        return _CATEGORIES[self.rank] if self.rank < len(_CATEGORIES) else f"{self.rank}-d array"

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
        return f"{shape} {self.dtype.name}{place}"

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorType, (self.shape, self.dtype, self.device)


_interned: dict[Any, TensorType] = {}


class TupleType:
    """The type of a node with several outputs; interned like TensorType."""

    __slots__ = ("parts",)
    parts: tuple[TensorType, ...]

    def __new__(cls, parts: tuple[TensorType, ...]) -> TupleType:
        found = _interned_tuples.get(parts)
        if found is None:
            found = _interned_tuples[parts] = object.__new__(cls)
            found.parts = parts
        return found

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


def normalize_axis(axis: int, rank: int, operation: str) -> int:
    """An axis counted from the front; raises OperandError when the rank has no such axis."""
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
    given = (axes,) if isinstance(axes, int) else tuple(axes)
    found = tuple(sorted(normalize_axis(axis, rank, operation) for axis in given))
    if len(set(found)) != len(found):
        raise OperandError(
            f"{operation}: axes {given} of a tensor of rank {rank}", rule="each axis once", fix="drop the repeated axis"
        )
    return found
