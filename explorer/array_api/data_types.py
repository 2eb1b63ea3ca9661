"""Data types of the standard, and functions about them."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.registry import functions
from explorer.core.types.device import Device

__all__ = [
    "astype",
    "bool",
    "can_cast",
    "complex64",
    "complex128",
    "finfo",
    "float32",
    "float64",
    "iinfo",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "result_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

bool = np.dtype(np.bool_)
int8, int16, int32, int64 = map(np.dtype, ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(np.dtype, ("uint8", "uint16", "uint32", "uint64"))
float32, float64 = map(np.dtype, ("float32", "float64"))
complex64, complex128 = map(np.dtype, ("complex64", "complex128"))

isdtype = np.isdtype
iinfo = np.iinfo


def finfo(type: Any, /) -> np.finfo[Any]:
    """Return the limits of a floating dtype, or of the dtype of an expression."""
    return np.finfo(_dtype(type))


def astype(x: Expr, dtype: Any, /, *, copy: Any = True, device: Device | str | None = None) -> Expr:
    """Convert an expression to another dtype; ``copy`` has no effect, because an expression never changes."""
    result: Expr = functions["cast"](x, dtype)
    return result if device is None else result.to_device(device)


def can_cast(from_: Any, to: Any, /) -> Any:
    """Return whether a dtype, or the dtype of an expression, can be converted without loss."""
    return np.can_cast(_dtype(from_), to)


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the dtype of an operation with these operands: expressions, arrays, dtypes and Python numbers."""
    if not _arrays(arrays_and_dtypes):
        raise OperandError(
            "result_type without an array or a dtype",
            rule="there must be at least one array or dtype",
            fix="xp.result_type(x, 1.0)",
        )
    return np.result_type(*map(_dtype, arrays_and_dtypes))


def _arrays(values: tuple[Any, ...]) -> Any:
    """Return whether a value is not a Python number."""
    return [value for value in values if not isinstance(value, (int, float, complex))]


def _dtype(value: Any) -> Any:
    return value.dtype if isinstance(value, (Expr, np.ndarray)) else value
