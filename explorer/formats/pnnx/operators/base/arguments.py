"""Types of parameters that many operators of PNNX have, and what their values mean.

pnnx lowers torch's graphs level by level. At level 2 an operator that it knows has named parameters (``dim=1``); at
level 0 it is an aten operator with operands in the order of torch's signature. Positional parameters of a function
serve both.
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
"""torch's names of dtypes"""
_Number = TypeVar("_Number", int, float)
Number = bool | int | float | complex
Real = bool | int | float
Value = Annotated[Any, "tensor, number or list"]
"""what torch's graphs compute with: a tensor, a plain number, a list or None"""
InPlace = Unused
"""without influence: pnnx writes a file without aliases, in which an operand is never overwritten"""
StackLevel = Unused
"""says whom torch warns"""
Placement = Annotated[Unused, Names("layout", "device", "pin_memory", "requires_grad", "memory_format")]
"""say where a tensor is stored, and nothing of its elements"""


def as_dtype(code: str | None, default: Any) -> np.dtype[Any]:
    """Return the dtype of torch's name for it, the default without one; raises OperandError for an unknown name."""
    if code is not None and code not in _DTYPES:
        raise OperandError(f"dtype={code!r}", rule=f"the dtype must be one of {', '.join(_DTYPES)}")
    dtype: np.dtype[Any] = np.dtype(default if code is None else _DTYPES[code])
    return dtype


def each_axis(name: str, lengths: tuple[_Number, ...], axes: int) -> tuple[_Number, ...]:
    """Return an argument that is one number for all axes, or one for each; raises OperandError for more or fewer."""
    if len(lengths) == 1:
        return lengths * axes
    if len(lengths) != axes:
        raise OperandError(f"{name}={lengths!r}", rule=f"{name} must be one number, or {axes}")
    return lengths


def in_dtype(x: Expr, code: str | None) -> Expr:
    """Return a tensor in the dtype that a file names, or in its own."""
    return cast(x, as_dtype(code, x.dtype))
