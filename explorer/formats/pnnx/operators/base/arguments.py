"""Parameters that stand in different places: by name where pnnx knows the operator, else by position.

pnnx lowers torch's graphs level by level. At level 2 an operator that it knows has named parameters (``dim=1``); at
level 0 it is an aten operator with operands in the order of torch's signature. Builders ask for a parameter by both,
and serve both levels.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.net.operators.context import OperatorContext
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


def each_axis(name: str, lengths: tuple[int, ...], axes: int) -> tuple[int, ...]:
    """Return an argument that is one integer for all axes, or one for each; raises OperandError for another number."""
    if len(lengths) == 1:
        return lengths * axes
    if len(lengths) != axes:
        raise OperandError(f"{name}={lengths!r}", rule=f"{name} must be one integer, or {axes}")
    return lengths


def in_dtype(x: Expr, code: str | None) -> Expr:
    """Return a tensor in the dtype that a file names, or in its own."""
    return cast(x, as_dtype(code, x.dtype))


_REQUIRED: Final = object()
"""mark of a parameter without a default, since None is a value of many"""


def value(op: OperatorContext, position: int, name: str, default: Any = _REQUIRED) -> Any:
    """Return a parameter by its name, else the operand at a position, else the default."""
    if op.has(name):
        return op.argument(name)
    if op.is_unnamed(position) or default is _REQUIRED:
        return op.operand(position, name)
    return default


def tensor_or_none(op: OperatorContext, position: int, name: str) -> Expr | None:
    """Return a tensor that may be absent: None then."""
    argument = value(op, position, name, None)
    if argument is None or isinstance(argument, Expr):
        return argument
    raise OperandError(f"{name}={argument!r}", rule=f"{op.definition.type}: {name} must be a tensor, or None")


def integer(op: OperatorContext, position: int, name: str, default: Any = _REQUIRED) -> int:
    """Return a whole number by name or position; raises OperandError for another value."""
    argument = value(op, position, name, default)
    if isinstance(argument, bool) or not isinstance(argument, int):
        raise OperandError(f"{name}={argument!r}", rule=f"{op.definition.type}: {name} must be an integer")
    return argument


def number(op: OperatorContext, position: int, name: str, default: Any = _REQUIRED) -> float:
    """Return a number by name or position; raises OperandError for another value."""
    argument = value(op, position, name, default)
    if isinstance(argument, bool) or not isinstance(argument, (int, float)):
        raise OperandError(f"{name}={argument!r}", rule=f"{op.definition.type}: {name} must be a number")
    return argument


def integers(op: OperatorContext, position: int, name: str, default: Any = _REQUIRED) -> tuple[int, ...]:
    """Return a list of integers by name or position; one number is a list of one."""
    argument = value(op, position, name, default)
    items = argument if isinstance(argument, (tuple, list)) else (argument,)
    if not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        raise OperandError(f"{name}={argument!r}", rule=f"{op.definition.type}: {name} must be a list of integers")
    return tuple(items)


def flag(op: OperatorContext, position: int, name: str, default: Any = _REQUIRED) -> bool:
    """Return True or False by name or position; raises OperandError for another value."""
    argument = value(op, position, name, default)
    if not isinstance(argument, bool):
        raise OperandError(f"{name}={argument!r}", rule=f"{op.definition.type}: {name} must be True or False")
    return argument


def sizes(op: OperatorContext, name: str, axes: int, default: Any = _REQUIRED) -> tuple[int, ...]:
    """Return a parameter that is one whole number for all axes, or one for each."""
    lengths = op.integers(name) if default is _REQUIRED else op.integers(name, default)
    if len(lengths) == 1:
        return lengths * axes
    if len(lengths) != axes:
        raise OperandError(f"{name}={lengths!r}", rule=f"{op.definition.type}: {name} must be one integer, or {axes}")
    return lengths
