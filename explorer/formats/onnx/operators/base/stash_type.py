"""``stash_type`` of normalizations: the dtype in which the standard has them computed, and their statistics stored."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.types.custom_dtypes import accumulator_dtype
from explorer.formats.onnx.operators.base.operator_inputs import BFLOAT16, dtype_of
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast

_FLOAT = 1
"""ONNX's number of float32"""


def in_stash_dtype(op: OperatorContext, x: Expr) -> Expr:
    """Return the operand in the dtype in which ``stash_type`` has it normalized, or in its own if that is wider."""
    dtype = np.dtype(np.float32) if _is_bfloat16(op) else dtype_of(op, "stash_type", _FLOAT)
    return cast(x, np.result_type(accumulator_dtype(x.dtype), dtype))


def stashed(op: OperatorContext, statistic: Expr) -> Expr:
    """Return a statistic in the dtype of ``stash_type``; bfloat16 is rounded, and held as float32."""
    if not _is_bfloat16(op):
        return cast(statistic, dtype_of(op, "stash_type", _FLOAT))
    return cast(cast(statistic, np.dtype(ml_dtypes.bfloat16)), np.dtype(np.float32))


def _is_bfloat16(op: OperatorContext) -> bool:
    return op.integer("stash_type", _FLOAT) == BFLOAT16
