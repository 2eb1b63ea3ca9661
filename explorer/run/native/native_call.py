"""Calls of C functions with fixed arguments, and sequences of them that Python starts with one call."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

from explorer.core.types.tensor_type import Array
from explorer.run.native.library import Function


class NativeCall(functools.partial[None]):
    """Call of a kernel's C function with the address of its arrays' addresses, and the first and last iteration."""


class _Call(ctypes.Structure):
    """Struct ``call`` in the C code of ``RUN_CALLS`` (library.py)."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("arrays", ctypes.c_void_p),
        ("start", ctypes.c_int64),
        ("stop", ctypes.c_int64),
    )


def joined(run_calls: Function, calls: Sequence[NativeCall]) -> NativeCall:
    """Return one call of the C function ``run_calls`` that makes all ``calls`` in sequence."""
    rows = [_Call(ctypes.cast(call.func, ctypes.c_void_p), *call.args) for call in calls]  # type: ignore[arg-type]
    table = (_Call * len(rows))(*rows)
    return native_call(run_calls, table, (0, len(rows)), calls)


def native_call(function: Function, table: ctypes.Array[Any], bounds: tuple[int, int], alive: Any = None) -> NativeCall:
    """Return the call of a function with the address of ``table``; also keep the object ``alive``."""
    pointer = ctypes.c_void_p(ctypes.addressof(table))
    vars(pointer)["alive"] = table, alive
    return NativeCall(function, pointer, *map(ctypes.c_int64, bounds))


def address_of(array: Array) -> int:
    """Return the address of an array's first element."""
    address: int = array.__array_interface__["data"][0]
    return address
