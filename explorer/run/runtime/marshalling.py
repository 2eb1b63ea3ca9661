"""Marshalling of values into and out of a run: parameters in their dtype, results read-only on the host.

Programs and plans use it. Inside a run values are taken as they are: every check and every copy happens once, at the
border.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor
from explorer.core.memory_budget import budget, claim_memory
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array


def parameter_value(parameter: Expr, value: Any) -> Any:
    """Return a parameter's value in its dtype; raise OperandError if shape or kind of number differ.

    A tensor of the parameter's own type on its device is taken as it is; everything else comes from NumPy's memory.
    """
    type_ = parameter.tensor_type
    if isinstance(value, Tensor) and value.type is type_ and type_.device is not cpu:
        value.mark_used()
        return value.storage.array
    array = np.asarray(value)
    if array.shape != type_.shape or not np.can_cast(array.dtype, type_.dtype, "same_kind"):
        value_type = f"{'×'.join(map(str, array.shape)) or 'scalar'} {array.dtype.name}"
        raise OperandError(
            f"the parameter {parameter.operation.label!r} ({type_}) with a value {value_type}",
            rule="a value must have its parameter's shape, and a dtype that converts to the parameter's",
            fix=f"pass an array of shape {type_.shape}, for instance value.astype('{type_.dtype.name}')",
        )
    # No copy where the dtype fits, as it does in most runs.
    converted = array.astype(type_.dtype, copy=False)
    return converted if type_.device is cpu else type_.device.put(converted)


def read_only(value: Any, copied: bool) -> Any:
    """Return a read-only result, or a read-only copy of it; another device's value is returned unchanged."""
    if isinstance(value, np.ndarray):
        if not copied:
            return sealed(value)
        if value.nbytes > budget.memory:  # the text is written only for the error
            claim_memory(f"a copy of a result of shape {value.shape}", value.nbytes)
        return sealed_copy(value)
    if isinstance(value, tuple):
        return tuple([read_only(part, False) for part in value])
    return sealed(np.asarray(value)) if isinstance(value, np.generic) else value


def on_host(expr: Expr, value: Any) -> Any:
    """Return a result as a read-only NumPy array, wherever it is."""
    device = expr.type.device
    return value if device is cpu or isinstance(value, tuple) else sealed(device.read(value))


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
