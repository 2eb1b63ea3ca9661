"""Element types of one's own: how numbers are stored, and what they stand for; fixed point is the usual case."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from explorer.core.errors import DeclarationError

Array = NDArray[Any]


class ElementType:
    """An element type of one's own: a subclass says what is stored, and converts from and to the numbers it means.

    ``dtype`` is NumPy's structured dtype of one field, so that arrays of it are copied, cut and reshaped by NumPy.
    Operations decode their operands, compute on ``numbers`` and encode the result; ``explorer.kernels[operation,
    element]`` takes a kernel on what is stored instead: function(operation, out, *operands).
    An element type of a name that the same class made before replaces it.
    """

    storage: ClassVar[DTypeLike]
    """NumPy's dtype of what is stored"""
    numbers: ClassVar[DTypeLike] = np.float64
    """NumPy's floating dtype of the numbers that it means"""

    def __init__(self, name: str = "") -> None:
        kind = type(self)
        self.name = name or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
        if not hasattr(kind, "storage") or np.dtype(self.numbers).kind != "f":
            raise DeclarationError(
                f"the element type {kind.__name__}",
                rule="an element type stores numbers of a dtype of NumPy's, and means floating ones",
                fix="storage = np.int16 in the class body; numbers = np.float64 unless said otherwise",
            )
        if kind.decode is ElementType.decode or kind.encode is ElementType.encode:
            raise DeclarationError(
                f"the element type {kind.__name__} without decode() or encode()",
                rule="an element type converts what is stored to numbers, and numbers to what is stored",
                fix="def decode(self, stored): …; def encode(self, numbers): …",
            )
        self.dtype: np.dtype[Any] = np.dtype([(self.name, self.storage)])
        for held in _known.values():
            other = type(held)
            if held.name == self.name and (other.__module__, other.__qualname__) != (
                kind.__module__,
                kind.__qualname__,
            ):
                raise DeclarationError(
                    f"a second element type {self.name!r}",
                    rule=f"an element type's name is unique; {other.__module__}.{other.__qualname__} has it",
                    fix=f"name it otherwise: {kind.__name__}('…')",
                )
        _known[self.dtype] = self

    def decode(self, stored: Array) -> Array:
        """The numbers that stored ones mean, of the same shape."""
        raise NotImplementedError

    def encode(self, numbers: Array) -> Array:
        """What is stored for numbers, of the same shape: rounded, and kept in range, as the type has it."""
        raise NotImplementedError

    def stored(self, array: Array) -> Array:
        """What an array of this element type holds, in the same memory."""
        found: Array = array[self.name]
        return found

    def read(self, array: Array) -> Array:
        """The numbers that an array of this element type means."""
        return np.asarray(self.decode(self.stored(array)), self.numbers)

    def write(self, array: Array, numbers: Any) -> None:
        """Write numbers into an array of this element type."""
        self.stored(array)[...] = self.encode(np.asarray(numbers, self.numbers))

    def array(self, numbers: Any) -> Array:
        """An array of this element type of numbers."""
        given = np.asarray(numbers, self.numbers)
        made = np.empty(given.shape, self.dtype)
        self.write(made, given)
        return made

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ElementType) and self.dtype == other.dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


_known: dict[np.dtype[Any], ElementType] = {}


def element_of(dtype: np.dtype[Any]) -> ElementType | None:
    """The element type that a dtype belongs to; None for NumPy's own."""
    return _known.get(dtype) if dtype.kind == "V" else None


def is_element(dtype: np.dtype[Any]) -> bool:
    """Whether tensors hold elements of a dtype: numbers, also those of a dtype that a NumPy extension declares."""
    return not dtype.hasobject and (dtype.kind in "biufc" or dtype.isbuiltin == 2 or element_of(dtype) is not None)


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether elements of a dtype stand for real numbers, which have gradients."""
    return dtype.kind == "f" or element_of(dtype) is not None


def dtype_name(dtype: np.dtype[Any]) -> str:
    """What a dtype is called: NumPy's name, or the element type's."""
    element = element_of(dtype)
    return dtype.name if element is None else element.name


def numbers_of(array: Array) -> Array:
    """The numbers of an array: itself, or what its elements mean."""
    element = element_of(array.dtype)
    return array if element is None else element.read(array)


def refuse_beyond(value: Array, dtype: np.dtype[Any]) -> None:
    """Raise OverflowError where numbers have no place in an integer dtype; NumPy would wrap them around."""
    if dtype.kind not in "iu" or value.dtype.kind not in "iuf" or not value.size:
        return
    limits = np.iinfo(dtype)
    smallest, largest = value.min(), value.max()
    for number in (smallest, largest):
        if not (limits.min <= (int(number) if np.isfinite(number) else np.inf) <= limits.max):
            raise OverflowError(f"{number} is not in {limits.min} … {limits.max}")


def converted(value: Any, dtype: np.dtype[Any]) -> Array:
    """An array of numbers, or of elements of any type, in another dtype."""
    source = getattr(value, "dtype", None)
    if isinstance(source, np.dtype) and element_of(source) is not None:
        value = numbers_of(np.asarray(value))
    element = element_of(dtype)
    return np.asarray(value, dtype) if element is None else element.array(value)
