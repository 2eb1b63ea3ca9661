"""Calls of C functions with fixed arguments, and sequences of them that Python starts with one call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from explorer.core.types.tensor_type import Array
from explorer.run.native.library import Function


@dataclass(frozen=True, slots=True)
class NativeCall:
    """Call of a kernel's C function with fixed arguments."""

    function: Function
    arrays: ctypes.c_void_p
    """address of the addresses of operands and result; the instance keeps this memory alive"""
    start: ctypes.c_int64
    stop: ctypes.c_int64

    def __call__(self) -> None:
        """Call the function."""
        self.function(self.arrays, self.start, self.stop)


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
    if len(calls) == 1:
        return calls[0]
    rows = [
        _Call(ctypes.cast(call.function, ctypes.c_void_p), call.arrays, call.start, call.stop)  # type: ignore[arg-type]
        for call in calls
    ]
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
