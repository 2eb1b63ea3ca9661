"""Conversion of values at the start and end of a run: parameters to their dtypes, results to read-only host arrays.

Inside a run, values are neither checked nor copied.
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
    """Return the value of a parameter in the parameter's dtype.

    A tensor with the parameter's type and device is returned unchanged; other values become arrays. Raises OperandError
    if the shape or the kind of number differs.
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
    # no copy if the dtype matches, as in most runs
    converted = array.astype(type_.dtype, copy=False)
    return converted if type_.device is cpu else type_.device.put(converted)


def read_only(value: Any, copied: bool) -> Any:
    """Return a read-only view of a result, or a read-only copy; a value on another device is returned unchanged."""
    if isinstance(value, np.ndarray):
        return sealed_copy(value) if copied else sealed(value)
    if isinstance(value, tuple):
        return tuple([read_only(part, False) for part in value])
    return sealed(np.asarray(value)) if isinstance(value, np.generic) else value


def on_host(expr: Expr, value: Any) -> Any:
    """Return a result as a read-only NumPy array, regardless of its device."""
    device = expr.type.device
    return value if device is cpu or isinstance(value, tuple) else sealed(device.read(value))


_NUMBERS = "biufc"
"""kinds of dtypes that the buffer protocol supports"""
_SMALL = 1 << 16
"""maximum number of bytes of a copy that is stored in a bytes object"""


def sealed(value: Array) -> Array:
    """Return a view of an array's memory; neither this view nor views of it can be made writable.

    Clearing the flag is not enough, because a view can be made writable again if the array that owns the memory is
    writable; a view of a read-only buffer cannot. The memory can still be written through its owner,
    ``result.base.base.obj``, which corrupts recalled values.
    """
    plain = _is_plain(value)
    # The buffer protocol does not support other dtypes.
    supported: Any = value if plain else value.view(f"V{value.itemsize}")
    read_only: Array = np.asarray(memoryview(supported).toreadonly())
    # A second view, whose base is the array and not the memoryview.
    return read_only.view() if plain else read_only.view(value.dtype)


def sealed_copy(value: Array) -> Array:
    """Return a copy of an array that cannot be made writable."""
    # A copy in an immutable bytes object needs no sealing. For a large array, NumPy allocates all pages at once.
    if 0 < value.nbytes <= _SMALL and value.flags.c_contiguous and _is_plain(value):
        # A view, as in ``sealed``: NumPy's views of a view refer to the array below, so they keep no result alive.
        return np.ndarray(value.shape, value.dtype, value.tobytes()).view()
    if value.nbytes > budget.memory:  # avoids formatting the name in most runs
        claim_memory(f"a copy of a result of shape {value.shape}", value.nbytes)
    return sealed(np.array(value))


def _is_plain(value: Array) -> bool:
    # isbuiltin is 2 for dtypes of other packages, even if they report a floating kind (float8_e5m2)
    return value.dtype.kind in _NUMBERS and value.dtype.isbuiltin == 1
