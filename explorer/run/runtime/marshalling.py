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
from explorer.run.runtime.sealed_arrays import sealed, sealed_copy


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
