"""Copies of values into existing tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.argument_checks import named
from explorer.core.attributes import stands_for_expression
from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.hooks import hooks
from explorer.core.ir.tensor import Tensor
from explorer.core.types.custom_dtypes import is_floating, numbers_of


@named
def copyto(target: Tensor, source: Any, casting: str = "same_kind") -> None:
    """Copy a value with the same shape into a tensor, converting dtype and device (MetaNN: DataCopy).

    ``casting`` is NumPy's casting rule. Raise OperandError if the shape differs or the dtype cannot be converted, and
    StateError if the target is shared; the target is then unchanged.

    >>> target = ex.Tensor(3)
    >>> ex.copyto(target, [1, 2, 3])
    >>> target.array
    array([1., 2., 3.], dtype=float32)
    """
    if not isinstance(target, Tensor):
        raise OperandError(
            f"copyto into a {type(target).__name__}",
            rule="the target must be a tensor",
            fix="target = ex.tensor(value)",
        )
    target.refuse_shared()
    if isinstance(source, Tensor):
        value = source.array
    elif isinstance(source, Expr) or stands_for_expression(source):
        value = hooks.evaluate(source)
    else:
        value = np.asarray(source)
    type_ = target.tensor_type
    if value.shape != type_.shape:
        raise OperandError(
            f"copyto of shape {value.shape} into {type_}",
            rule="source and target must have the same shape",
            fix="assign to a part of the target: target[1:3] = value",
        )
    numbers = numbers_of(value)
    # A floating-point target accepts all real dtypes, including float64 into float32 and user-defined dtypes.
    fits = is_floating(type_.dtype) and numbers.dtype.kind != "c"
    if not fits and not np.can_cast(numbers.dtype, type_.dtype, casting):  # type: ignore[arg-type]  # NumPy names the rules
        raise OperandError(
            f"copyto of {value.dtype} into {type_}",
            rule=f"NumPy's casting rule {casting!r} must allow casting {value.dtype} to {type_.dtype}",
            fix="casting='unsafe', if the loss of precision is acceptable",
        )
    target[...] = numbers.astype(type_.dtype) if fits is False and casting == "unsafe" else numbers
