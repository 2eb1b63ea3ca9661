"""Casts to and from narrow elements: 8-bit and 4-bit floating numbers, whole numbers of 4 and 2 bits.

Such elements are stored, cast and moved; whatever computes with them widens them first. A number beyond the limits
becomes the nearest limit where a cast saturates, which is ONNX's default. bfloat16 is held as float32: a cast to it
rounds, and what follows computes in float32.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.custom_dtypes import is_text
from explorer.formats.onnx.operators.base.delegated import delegated
from explorer.formats.onnx.operators.base.operator_inputs import BFLOAT16, FLOAT8_E8M0, TEXT, dtype_of
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.definition.operator_definition import NARROW
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import required
from explorer.ops.base import cast
from explorer.ops.nn.activation import clip

_FLOAT32 = np.dtype(np.float32)
_BFLOAT16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)


@operator("Cast", ignored=("saturate", "round_mode"))
def cast_(op: OperatorContext) -> Any:
    """The elements in another dtype, limited to its range where they become floating numbers of 8 bits."""
    x = required(op, "input")
    if op.integer("to") == BFLOAT16:
        return cast(cast(cast(x, _FLOAT32), _BFLOAT16), _FLOAT32)
    if op.integer("to") in (FLOAT8_E8M0, TEXT) or is_text(x.dtype):
        return delegated(op)
    return narrowed(op, x, dtype_of(op, "to", narrow=True))


@operator("CastLike", ignored=("saturate", "round_mode"))
def cast_like(op: OperatorContext) -> Expr:
    """The elements in the dtype of another operand."""
    dtype = required(op, "target_type").dtype
    if dtype.name == "float8_e8m0fnu":
        raise OperandError("a target_type of float8_e8m0fnu", rule="CastLike: it must be cast to by Cast")
    return narrowed(op, required(op, "input"), dtype)


def narrowed(op: OperatorContext, x: Expr, dtype: np.dtype[Any]) -> Expr:
    """Return elements in another dtype; ``saturate`` of the operator says whether they stay within its limits."""
    if dtype.name not in NARROW:
        return cast(x, dtype)
    wide = x if x.dtype.kind == "f" and x.dtype.name not in NARROW else cast(x, _FLOAT32)
    if dtype.name.startswith("float8") and op.integer("saturate", 1):
        low, high = limits(dtype)
        wide = clip(wide, low, high)
    return cast(wide, dtype)


def limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the smallest and the largest finite number of a dtype."""
    if dtype.name.startswith("float"):
        # ml_dtypes has no types for finfo and iinfo
        real: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]  # the package has no types
        return float(real.min), float(real.max)
    whole: Any = ml_dtypes.iinfo(dtype) if dtype.name in NARROW else np.iinfo(dtype)  # type: ignore[no-untyped-call]  # the same
    return int(whole.min), int(whole.max)
