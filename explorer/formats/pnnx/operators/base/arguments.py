"""Types of parameters that many PNNX operators share, and functions that interpret their values.

pnnx converts torch graphs in levels. At level 2, a known operator has named parameters (``dim=1``). At level 0, it is
an aten operator with operands in the order of torch's signature. A builder's positional parameters support both levels.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.net.operators.signature import Names, Unused
from explorer.ops.base import cast

_DTYPES = {
    "torch.float": "float32", "torch.float32": "float32", "torch.double": "float64", "torch.float64": "float64",
    "torch.half": "float16", "torch.float16": "float16", "torch.int": "int32", "torch.int32": "int32",
    "torch.long": "int64", "torch.int64": "int64", "torch.short": "int16", "torch.int16": "int16",
    "torch.char": "int8", "torch.int8": "int8", "torch.uint8": "uint8", "torch.byte": "uint8", "torch.bool": "bool",
    "torch.complex64": "complex64", "torch.complex128": "complex128",
}  # fmt: skip
"""NumPy's names of dtypes, by torch's names"""
_Number = TypeVar("_Number", int, float)
Number = bool | int | float | complex
Real = bool | int | float
Value = Annotated[Any, "tensor, number or list"]
"""any value in a torch graph: a tensor, a Python number, a list or None"""
InPlace = Unused
"""ignored: files have no aliases, so no other operator can observe an in-place change"""
StackLevel = Unused
"""ignored: it only selects the caller that torch's warnings name"""
Placement = Annotated[Unused, Names("layout", "device", "pin_memory", "requires_grad", "memory_format")]
"""ignored: these arguments determine how a tensor is stored, not its elements"""


def as_dtype(code: str | None, default: Any) -> np.dtype[Any]:
    """Return the dtype with the torch name ``code``, or ``default`` for None; raise OperandError if it is unknown."""
    if code is not None and code not in _DTYPES:
        raise OperandError(f"dtype={code!r}", rule=f"the dtype must be one of {', '.join(_DTYPES)}")
    dtype: np.dtype[Any] = np.dtype(default if code is None else _DTYPES[code])
    return dtype


def each_axis(name: str, lengths: tuple[_Number, ...], axes: int) -> tuple[_Number, ...]:
    """Return one number for each axis; a single number is repeated, and any other count raises OperandError."""
    if len(lengths) == 1:
        return lengths * axes
    if len(lengths) != axes:
        raise OperandError(f"{name}={lengths!r}", rule=f"{name} must be one number, or {axes} numbers")
    return lengths


def in_dtype(x: Expr, code: str | None) -> Expr:
    """Cast ``x`` to the dtype with the torch name ``code``; return ``x`` unchanged for None."""
    return cast(x, as_dtype(code, x.dtype))
