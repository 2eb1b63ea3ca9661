"""ONNX's numbers for dtypes, as attributes write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.net.operators.context import OperatorContext

_DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128",
}  # fmt: skip


def dtype_of(op: OperatorContext, name: str, default: int | None = None) -> np.dtype[Any]:
    """The dtype that an attribute names; raises OperandError for one that explorer has not."""
    kind = op.integer(name) if default is None else op.integer(name, default)
    if kind not in _DTYPES:
        raise OperandError(
            f"{name}={kind}",
            rule=f"{op.definition.type}: elements are booleans, or real, complex or whole numbers of 8 bits or more; "
            "bfloat16, texts and narrower numbers are not computed with",
        )
    return np.dtype(_DTYPES[kind])
