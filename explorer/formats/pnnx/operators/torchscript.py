"""Constants, lists and sizes of TorchScript, torch's own graphs.

A file of level 0 holds such a graph; others hold these types where no pass of pnnx matched them. Values are torch's:
tensors, plain numbers and lists, which are computed while the net is built.
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
    """A plain value."""
    return value


@file_operator("prim::ListConstruct", "prim::TupleConstruct")
def construct(op: OperatorContext) -> tuple[Any, ...]:
    """A list of values."""
    return listed(op.operands)


@file_operator("prim::ListUnpack", "prim::TupleUnpack")
def unpack(members: Value) -> tuple[Any, ...]:
    """The members of a list."""
    if not isinstance(members, tuple):
        raise OperandError(f"the operand is {members!r}", rule="the operand must be a list")
    return members


@file_operator("aten::size", "Tensor.size")
def size(input: Expr, dim: int | None = None) -> Any:
    """The shape of a tensor, or one size of it."""
    return input.shape if dim is None else apply("size", [input, dim])


@file_operator("aten::numel", "torch.numel", "Tensor.numel")
def numel(input: Expr) -> int:
    """The number of elements of a tensor."""
    return input.size


@file_operator("aten::Int", "prim::NumToTensor", "aten::ScalarImplicit")
def number(value: Value) -> Any:
    """A plain number as it is."""
    if isinstance(value, Expr):
        raise OperandError(f"the operand is {value!r}", rule="a size must be known before anything is computed")
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
def same(input: Expr, memory_format: Unused) -> Expr:
    """The operand itself: values have no memory that others could write to."""
    return input
