"""Sealed arrays: results that nobody can make writable, so that a recalled value is the value once computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.types.tensor_type import Array

_NUMBERS = "biufc"
"""kinds of dtypes that the buffer protocol can name"""
_SMALL = 1 << 16
"""bytes of a copy that lies in a bytes object"""


def sealed(value: Array) -> Array:
    """Return a view of an array's memory that NumPy refuses to make writable, as well as any view of it.

    Clearing the flag is not enough: a view can be made writable again where the array that owns the memory is writable.
    A view of a read-only buffer cannot. No object of Python is out of reach, though: the buffer names the array that
    owns the memory (``result.base.base.obj``), and writing there breaks the promise about recalled values.
    """
    plain = _is_plain(value)
    # Other dtypes have no name in the buffer protocol.
    named: Any = value if plain else value.view(f"V{value.itemsize}")
    read_only: Array = np.asarray(memoryview(named).toreadonly())
    # A view of the array, so that its base is the array and not the memoryview.
    return read_only.view() if plain else read_only.view(value.dtype)


def sealed_copy(value: Array) -> Array:
    """Return a sealed copy of an array."""
    # A copy in an immutable object of Python needs no seal; a large array has pages that NumPy asks for in one piece.
    if 0 < value.nbytes <= _SMALL and value.flags.c_contiguous and _is_plain(value):
        return np.frombuffer(value.tobytes(), value.dtype).reshape(value.shape)
    return sealed(np.array(value))


def _is_plain(value: Array) -> bool:
    # isbuiltin is 2 for dtypes of other packages, one of which (float8_e5m2) calls itself a floating one
    return value.dtype.kind in _NUMBERS and value.dtype.isbuiltin == 1
