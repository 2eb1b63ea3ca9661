"""User-defined dtypes: a storage dtype, and conversions to and from real numbers (for example, fixed point).

A user-defined dtype is a structured NumPy dtype with one field, because NumPy's interface for new dtypes requires C.
NumPy copies, slices and stores structured arrays unchanged, but rejects arithmetic on them, which prevents accidental
mixing with plain numbers.
"""

from __future__ import annotations

import functools
import re
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from explorer.core.argument_checks import named_methods
from explorer.core.errors import DeclarationError

Array = NDArray[Any]


@named_methods
class ElementType:
    """User-defined dtype: a subclass declares the stored dtype, and converts from and to the represented numbers.

    ``dtype`` is a structured NumPy dtype with one field, so NumPy copies, slices and reshapes arrays of this type. By
    default, operations decode their operands, compute with numbers of dtype ``numbers`` and encode the result. A kernel
    that uses the stored values instead, function(operation, out, *operands), can be registered in
    ``explorer.kernels[operation, element]``. A second instance of the same class and name replaces the first.

    >>> class Eighths(ex.ElementType):
    ...     "Numbers in steps of 1/8, stored as 16-bit integers."
    ...     storage = np.int16
    ...     def decode(self, stored):
    ...         return stored / 8
    ...     def encode(self, numbers):
    ...         return np.round(numbers * 8)
    >>> eighths = Eighths()
    >>> x = ex.tensor(eighths.array([0.5, 0.3]))
    >>> eighths.read(ex.evaluate(x + x))
    array([1. , 0.5])
    """

    storage: ClassVar[DTypeLike]
    """NumPy dtype of the stored values"""
    numbers: ClassVar[DTypeLike] = np.float64
    """floating NumPy dtype of the represented numbers"""

    def __init__(self, name: str = "") -> None:
        cls = type(self)
        self.name = name or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()
        if not hasattr(cls, "storage") or np.dtype(self.numbers).kind != "f":
            raise DeclarationError(
                f"the element type {cls.__name__}",
                rule="an element type must have a NumPy dtype as storage and a floating one as numbers",
                fix="storage = np.int16 in the class body; numbers is np.float64 by default",
            )
        if cls.decode is ElementType.decode or cls.encode is ElementType.encode:
            raise DeclarationError(
                f"the element type {cls.__name__} without decode() or encode()",
                rule="an element type must convert stored values to numbers, and numbers to stored values",
                fix="def decode(self, stored): …; def encode(self, numbers): …",
            )
        self.dtype: np.dtype[Any] = np.dtype([(self.name, self.storage)])
        for element in _element_types.values():
            owner = type(element)
            if element.name == self.name and (owner.__module__, owner.__qualname__) != (
                cls.__module__,
                cls.__qualname__,
            ):
                raise DeclarationError(
                    f"a second element type {self.name!r}",
                    rule=f"an element type's name must be unique; {owner.__module__}.{owner.__qualname__} uses it",
                    fix=f"choose another name: {cls.__name__}('…')",
                )
        _element_types[self.dtype] = self

    def decode(self, stored: Array) -> Array:
        """Return the numbers represented by an array of stored values, in the same shape."""
        raise NotImplementedError

    def encode(self, numbers: Array) -> Array:
        """Return the stored values for an array of numbers, rounded and clipped to the type's range; keeps the
        shape."""
        raise NotImplementedError

    def stored(self, array: Array) -> Array:
        """Return the stored values of an array of this element type, without copying its memory."""
        values: Array = array[self.name]
        return values

    def read(self, array: Array) -> Array:
        """Return the numbers represented by an array of this element type."""
        return np.asarray(self.decode(self.stored(array)), self.numbers)

    def write(self, array: Array, numbers: Any) -> None:
        """Write numbers into an array of this element type."""
        self.stored(array)[...] = self.encode(np.asarray(numbers, self.numbers))

    def array(self, numbers: Any) -> Array:
        """Return a new array of this element type with the given numbers."""
        values = np.asarray(numbers, self.numbers)
        encoded = np.empty(values.shape, self.dtype)
        self.write(encoded, values)
        return encoded

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ElementType) and self.dtype == other.dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


_element_types: dict[np.dtype[Any], ElementType] = {}


def element_of(dtype: np.dtype[Any]) -> ElementType | None:
    """Return the element type of ``dtype``, or None for NumPy's own dtypes."""
    return _element_types.get(dtype) if dtype.kind == "V" else None


def is_element(dtype: np.dtype[Any]) -> bool:
    """Return whether tensors may have dtype ``dtype``: numbers, including extension dtypes, or strings."""
    # ``isbuiltin`` is 2 for dtypes that other packages register with NumPy (ml_dtypes' bfloat16)
    if is_text(dtype):
        return dtype.itemsize > 0
    return not dtype.hasobject and (dtype.kind in "biufc" or dtype.isbuiltin == 2 or element_of(dtype) is not None)


def is_text(dtype: np.dtype[Any]) -> bool:
    """Return whether ``dtype`` is a fixed-width string."""
    return dtype.kind == "U"


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Return whether ``dtype`` is a real floating dtype, whose elements have gradients."""
    return dtype.kind == "f" or _is_narrow_float(dtype) or element_of(dtype) is not None


@functools.cache
def _is_narrow_float(dtype: np.dtype[Any]) -> bool:
    """Return whether ``dtype`` is a float registered by another package, such as bfloat16."""
    if dtype.isbuiltin != 2:
        return False
    try:
        # their integer dtypes have no exponential function
        return np.exp.resolve_dtypes((dtype, None))[-1] == dtype
    except TypeError:
        return False


@functools.cache
def accumulator_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which elements of ``dtype`` are accumulated: float32 for narrower floats, else ``dtype``
    itself.

    A float16 sum overflows at 65,504, and a sum of ones stops growing at 2,048. bfloat16 has even fewer digits.
    """
    is_narrow = dtype.itemsize < 4 and (dtype.kind == "f" or _is_narrow_float(dtype))
    return np.dtype(np.float32) if is_narrow else dtype


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype: NumPy's or the element type's.

    For example, the name for strings of up to 8 characters is ``text8``.
    """
    if is_text(dtype):
        return f"text{dtype.itemsize // np.dtype('U1').itemsize}"
    element = element_of(dtype)
    return dtype.name if element is None else element.name


def numbers_of(array: Array) -> Array:
    """Return the array itself if it contains numbers, else an array of the numbers that its elements represent."""
    element = element_of(array.dtype)
    return array if element is None else element.read(array)


def refuse_beyond(value: Array, dtype: np.dtype[Any]) -> None:
    """Raise OverflowError if numbers exceed the range of an integer dtype, because NumPy would wrap them around."""
    if dtype.kind not in "iu" or value.dtype.kind not in "iuf" or not value.size:
        return
    limits = np.iinfo(dtype)
    smallest, largest = value.min(), value.max()
    for number in (smallest, largest):
        # compare Python ints, because 2⁶³ and 2⁶³ − 1 are equal as floats
        if not (limits.min <= (int(number) if np.isfinite(number) else np.inf) <= limits.max):
            raise OverflowError(f"{number} is not in {limits.min} … {limits.max}")


def converted(value: Any, dtype: np.dtype[Any]) -> Array:
    """Convert an array of numbers, or of elements of a user-defined dtype, to another dtype."""
    source = getattr(value, "dtype", None)
    if isinstance(source, np.dtype) and element_of(source) is not None:
        value = numbers_of(np.asarray(value))
    element = element_of(dtype)
    return np.asarray(value, dtype) if element is None else element.array(value)
