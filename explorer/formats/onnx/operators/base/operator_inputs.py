"""The first input of ONNX operators under its various names, and dtype codes."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.net.definition.operator_definition import memory_dtype
from explorer.net.operators.signature import Names

First = Annotated[Expr, Names("X", "input", "data", "A", "x")]
"""the first input, under any of its names in the standard"""


_DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128",
}  # fmt: skip
"""dtypes that explorer computes with, by ONNX's dtype code (TensorProto.DataType)"""
TEXT, BFLOAT16, FLOAT8_E8M0 = 8, 16, 24
"""codes of strings, of bfloat16 (stored as float32), and of powers of two used as block scales"""
_NARROW = {
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4_e2m1fn", FLOAT8_E8M0: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}  # fmt: skip
"""dtypes that can be stored, cast and moved, but not computed with, by dtype code"""


def dtype_of_code(code: int, name: str, *, narrow: bool = False) -> np.dtype[Any]:
    """Return the dtype with an ONNX code; raise OperandError if explorer does not compute with it.

    ``name`` is the attribute that the error names. ``narrow`` also allows dtypes that are only stored.
    """
    if narrow and code in _NARROW:
        return memory_dtype(_NARROW[code])
    if code not in _DTYPES:
        raise OperandError(
            f"{name}={code}",
            rule="elements must be booleans, integers, or real or complex numbers of 8 bits or more; "
            "explorer does not compute with bfloat16, strings and narrower numbers",
        )
    return np.dtype(_DTYPES[code])
