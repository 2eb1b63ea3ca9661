"""Tensors that a file makes of nothing, or in the likeness of others.

Such tensors are constants, whose size a file can choose freely: each claims its bytes before it is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import as_operands
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import as_shape
from explorer.formats.common.operator_checks import range_length
from explorer.formats.pnnx.operators.base.arguments import integers, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.creation.constants import full

_DTYPES = {
    "torch.float": "float32", "torch.float32": "float32", "torch.double": "float64", "torch.float64": "float64",
    "torch.half": "float16", "torch.float16": "float16", "torch.int": "int32", "torch.int32": "int32",
    "torch.long": "int64", "torch.int64": "int64", "torch.short": "int16", "torch.int16": "int16",
    "torch.char": "int8", "torch.int8": "int8", "torch.uint8": "uint8", "torch.byte": "uint8", "torch.bool": "bool",
    "torch.complex64": "complex64", "torch.complex128": "complex128",
}  # fmt: skip


_PLACE = ("layout", "device", "pin_memory", "requires_grad", "memory_format")
"""parameters that say where a tensor lies, and nothing of its elements"""


def dtype_of(op: OperatorContext, default: Any) -> np.dtype[Any]:
    """The dtype that the file names, else the default."""
    code = op.argument("dtype", None)
    if code is not None and code not in _DTYPES:
        raise OperandError(f"dtype={code!r}", rule=f"the dtype must be one of {', '.join(_DTYPES)}")
    dtype: np.dtype[Any] = np.dtype(default if code is None else _DTYPES[code])
    return dtype


def _number(value: Any) -> Any:
    if isinstance(value, (bool, int, float, complex)):
        return value
    raise OperandError(f"fill_value={value!r}", rule="a tensor must be filled with a number")


def _real(name: str, value: Any) -> int | float:
    if isinstance(value, (bool, int, float)):
        return value
    raise OperandError(f"{name}={value!r}", rule=f"{name} must be a real number")


def _default(number: Any) -> str:
    """The dtype that torch gives a tensor of a number."""
    return "bool" if isinstance(number, bool) else "int64" if isinstance(number, int) else "float32"


@file_operator("torch.full", ignored=_PLACE)
def full_(op: OperatorContext) -> Expr:
    """One number everywhere."""
    number = _number(value(op, 1, "fill_value"))
    return full(integers(op, 0, "size"), number, dtype_of(op, _default(number)))


def _enter_constant(name: str, number: int) -> None:
    @file_operator(f"torch.{name}", ignored=_PLACE)
    def constant(op: OperatorContext) -> Expr:
        return full(integers(op, 0, "size"), number, dtype_of(op, "float32"))

    @file_operator(f"torch.{name}_like", ignored=_PLACE)
    def alike(op: OperatorContext) -> Expr:
        return full(op.x.shape, number, dtype_of(op, op.x.dtype))

    @file_operator(f"Tensor.new_{name}", ignored=_PLACE)
    def new(op: OperatorContext) -> Expr:
        return full(integers(op, 1, "size"), number, dtype_of(op, op.x.dtype))

    builders: tuple[Callable[..., Expr], ...] = (constant, alike, new)
    for builder in builders:
        builder.__doc__ = f"{number} everywhere."


_enter_constant("zeros", 0)
_enter_constant("ones", 1)


@file_operator("torch.full_like", ignored=_PLACE)
def full_like(op: OperatorContext) -> Expr:
    """One number everywhere, in the shape of another tensor."""
    return full(op.x.shape, _number(value(op, 1, "fill_value")), dtype_of(op, op.x.dtype))


@file_operator("Tensor.new_full", ignored=_PLACE)
def new_full(op: OperatorContext) -> Expr:
    """One number everywhere, in the dtype of another tensor."""
    return full(integers(op, 1, "size"), _number(value(op, 2, "fill_value")), dtype_of(op, op.x.dtype))


@file_operator("torch.arange", ignored=_PLACE)
def arange(op: OperatorContext) -> Expr:
    """Numbers from start to before end by a step."""
    start, end, step = (
        _real(name, op.argument(name, default)) for name, default in (("start", 0), ("end", None), ("step", 1))
    )
    count = range_length(start, end, step, "torch.arange")
    claim_constant("torch.arange", count)
    if not count:  # NumPy would refuse ends that lie too far before the start
        start = end = 0
    whole = all(isinstance(number, int) for number in (start, end, step))
    return as_operands(
        (np.arange(start, end, step).astype(dtype_of(op, "int64" if whole else "float32"), copy=False),)
    )[0]


@file_operator("torch.linspace", ignored=_PLACE)
def linspace(op: OperatorContext) -> Expr:
    """So many numbers from start to end, both included."""
    start, end = (_real(name, op.argument(name)) for name in ("start", "end"))
    (count,) = as_shape(op.integer("steps"), "linspace")
    claim_constant("torch.linspace", count)
    return as_operands((np.linspace(start, end, count).astype(dtype_of(op, "float32")),))[0]


@file_operator("Tensor.to", "Tensor.type", ignored=(*_PLACE, "copy", "non_blocking"))
def to(op: OperatorContext) -> Expr:
    """The elements converted to another dtype."""
    return cast(op.x, dtype_of(op, op.x.dtype))


@file_operator("Tensor.type_as")
def type_as(op: OperatorContext) -> Expr:
    """The elements converted to the dtype of another tensor."""
    return cast(op.x, op.tensor(1, "other").dtype)
