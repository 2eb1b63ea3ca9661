"""Sealed arrays: results that nobody can write to, so that a value which is recalled is the value that was computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.types.tensor_type import Array

_NUMBERS = "biufc"
"""kinds of dtypes that buffers of Python have names for, also where a dtype is an equal object of its own"""


def sealed(value: Array) -> Array:
    """A view of an array's memory that NumPy refuses to make writable, as it does views of it.

    A view of an array can be made writable where that array is; a view of a read-only buffer cannot.
    """
    plain = value.dtype.kind in _NUMBERS and value.dtype.isnative
    held: Any = value if plain else value.view(f"V{value.itemsize}")  # buffers have no names of other dtypes
    found: Array = np.asarray(memoryview(held).toreadonly())
    return found.view() if plain else found.view(value.dtype)  # a view of it holds the buffer's array, not itself
