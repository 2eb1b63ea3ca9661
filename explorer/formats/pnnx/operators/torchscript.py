"""Constants, lists and sizes in TorchScript graphs.

A level-0 file contains a TorchScript graph. Other files contain these operator types if no pass of pnnx matched them.
Values are tensors, or Python numbers and lists, which are computed while the net is built.
"""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import listed
from explorer.formats.pnnx.operators.base.arguments import Value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import apply
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.signature import Unused


@file_operator("prim::Constant")
def constant(*, value: Value) -> Any:
    """Return a Python value."""
    return value


@file_operator("prim::ListConstruct", "prim::TupleConstruct")
def construct(op: OperatorContext) -> tuple[Any, ...]:
    """Return a list of values."""
    return listed(op.operands)


@file_operator("prim::ListUnpack", "prim::TupleUnpack")
def unpack(members: Value) -> tuple[Any, ...]:
    """Return the members of a list."""
    if not isinstance(members, tuple):
        raise OperandError(f"the operand is {members!r}", rule="the operand must be a list")
    return members


@file_operator("aten::size", "Tensor.size")
def size(input: Expr, dim: int | None = None) -> Any:
    """Return the shape of a tensor, or its length along the axis ``dim``."""
    return input.shape if dim is None else apply("size", [input, dim])


@file_operator("aten::numel", "torch.numel", "Tensor.numel")
def numel(input: Expr) -> int:
    """Return the number of elements of a tensor."""
    return input.size


@file_operator("aten::Int", "prim::NumToTensor", "aten::ScalarImplicit")
def number(value: Value) -> Any:
    """Return a Python number unchanged; raise OperandError if it is a tensor."""
    if isinstance(value, Expr):
        raise OperandError(f"the operand is {value!r}", rule="a size must be known before the net runs")
    return value


@file_operator(
    "Tensor.clone",
    "torch.clone",
    "aten::clone",
    "Tensor.contiguous",
    "aten::contiguous",
    "aten::detach",
    "Tensor.detach",
)
def identity(input: Expr, memory_format: Unused) -> Expr:
    """Return the operand itself, since no operation can modify it."""
    return input
