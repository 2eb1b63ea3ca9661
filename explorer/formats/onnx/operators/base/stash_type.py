"""``stash_type`` of normalizations: the dtype of their computation and of the statistics they return."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.types.custom_dtypes import accumulator_dtype
from explorer.formats.onnx.operators.base.operator_inputs import BFLOAT16, dtype_of_code
from explorer.ops.base import cast

FLOAT = 1
"""ONNX's dtype code of float32"""


def in_stash_dtype(x: Expr, stash_type: int) -> Expr:
    """Cast ``x`` to the dtype with the code ``stash_type``; return it unchanged if its own dtype is wider."""
    return cast(x, np.result_type(accumulator_dtype(x.dtype), _memory_dtype(stash_type)))


def stashed(statistic: Expr, stash_type: int) -> Expr:
    """Cast a statistic to the dtype with the code ``stash_type``; bfloat16 is rounded, but stored as float32."""
    if stash_type == BFLOAT16:
        statistic = cast(statistic, np.dtype(ml_dtypes.bfloat16))
    return cast(statistic, _memory_dtype(stash_type))


def _memory_dtype(stash_type: int) -> np.dtype[Any]:
    return np.dtype(np.float32) if stash_type == BFLOAT16 else dtype_of_code(stash_type, "stash_type")
