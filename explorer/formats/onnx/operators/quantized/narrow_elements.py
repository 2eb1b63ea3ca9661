"""Casts to and from narrow elements: floating-point numbers of 8 and 4 bits, and integers of 4 and 2 bits.

Such elements are stored, cast and moved, but widened before computations. In a saturating cast, ONNX's default, numbers
out of range become the nearest limit. A cast to bfloat16 rounds, but the result is stored and used as float32.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.custom_dtypes import is_text
from explorer.formats.onnx.operators.base.delegated import delegated
from explorer.formats.onnx.operators.base.operator_inputs import BFLOAT16, FLOAT8_E8M0, TEXT, dtype_of_code
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.definition.operator_definition import NARROW
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.signature import Unused
from explorer.ops.base import cast
from explorer.ops.nn.activation import clip

_FLOAT32 = np.dtype(np.float32)
_BFLOAT16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)


@operator("Cast")
def cast_(op: OperatorContext, input: Expr, *, to: int, saturate: int = 1, round_mode: Unused) -> Any:
    """Convert elements to another dtype; 8-bit floating-point numbers are clipped to the dtype's range."""
    if to == BFLOAT16:
        return cast(cast(cast(input, _FLOAT32), _BFLOAT16), _FLOAT32)
    if to in (FLOAT8_E8M0, TEXT) or is_text(input.dtype):
        return delegated(op)
    return narrowed(input, dtype_of_code(to, "to", narrow=True), saturate)


@operator("CastLike")
def cast_like(input: Expr, target_type: Expr, *, saturate: int = 1, round_mode: Unused) -> Expr:
    """Convert elements to the dtype of another operand."""
    if target_type.dtype.name == "float8_e8m0fnu":
        raise OperandError("a target_type of float8_e8m0fnu", rule="CastLike does not support it; use Cast")
    return narrowed(input, target_type.dtype, saturate)


def narrowed(x: Expr, dtype: np.dtype[Any], saturate: int) -> Expr:
    """Return elements in another dtype; with ``saturate``, 8-bit floats are clipped to the dtype's range."""
    if dtype.name not in NARROW:
        return cast(x, dtype)
    wide = x if x.dtype.kind == "f" and x.dtype.name not in NARROW else cast(x, _FLOAT32)
    if dtype.name.startswith("float8") and saturate:
        wide = clip(wide, *limits(dtype))
    return cast(wide, dtype)


def limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the smallest and the largest finite number of a dtype."""
    if dtype.name.startswith("float"):
        # ml_dtypes has no type annotations for finfo and iinfo
        float_info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]  # the package has no types
        return float(float_info.min), float(float_info.max)
    integer_info: Any = ml_dtypes.iinfo(dtype) if dtype.name in NARROW else np.iinfo(dtype)  # type: ignore[no-untyped-call]  # the same
    return int(integer_info.min), int(integer_info.max)
