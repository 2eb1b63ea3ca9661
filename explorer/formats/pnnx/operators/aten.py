"""Operator types of level 0, under torch's inner names: constants, lists, arithmetic.

A file of level 0 holds torch's own graph; others hold such types where no pass of pnnx matched them. Values are
torch's: tensors, plain numbers and lists, which are computed while the net is built.
"""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import listed
from explorer.formats.pnnx.expression_tree import ARITY
from explorer.formats.pnnx.operators.base.arguments import value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import apply
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.schema import Count

_SAME = """
    abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor log log10 log1p neg reciprocal round rsqrt
    sign sin sinh sqrt square tan trunc mul floor_divide fmod remainder pow atan2 maximum minimum logaddexp
"""


@file_operator("prim::Constant")
def constant(op: OperatorContext) -> Any:
    """A plain value."""
    return op.argument("value")


@file_operator("prim::ListConstruct", "prim::TupleConstruct")
def construct(op: OperatorContext) -> tuple[Any, ...]:
    """A list of values."""
    return listed(op.operands)


@file_operator("prim::ListUnpack", "prim::TupleUnpack", operands=Count(1, 1))
def unpack(op: OperatorContext) -> tuple[Any, ...]:
    """The members of a list."""
    (members,) = op.operands
    if not isinstance(members, tuple):
        raise OperandError(f"the operand is {members!r}", rule="the operand must be a list")
    return members


def _enter(name: str) -> None:
    @file_operator(f"aten::{name}", f"torch.{name}", operands=Count(*ARITY[name]))
    def elementwise(op: OperatorContext) -> Any:
        return apply(name, list(op.operands))

    elementwise.__doc__ = f"{name}, element by element."


for _name in _SAME.split():
    _enter(_name)


@file_operator("aten::add", "aten::sub", "torch.add", "torch.sub", operands=Count(2, 3))
def scaled_sum(op: OperatorContext) -> Any:
    """a ± α · b."""
    a, b, *rest = op.operands
    alpha = rest[0] if rest else op.argument("alpha", 1)
    name = "add" if op.definition.type.endswith("add") else "sub"
    return apply(name, [a, b if alpha == 1 else apply("mul", [b, alpha])])


@file_operator("aten::div", "torch.div", operands=Count(2, 3))
def quotient(op: OperatorContext) -> Any:
    """a / b, or with a rounding_mode its whole part (trunc) or the next whole number below it (floor)."""
    a, b, mode = op.operand(0), op.operand(1), value(op, 2, "rounding_mode", None)
    if mode not in (None, "trunc", "floor"):
        raise OperandError(
            f"rounding_mode={mode!r}", rule=f"{op.definition.type}: rounding_mode must be None, trunc or floor"
        )
    if mode is None:
        return apply("div", [a, b])
    if mode == "floor":
        return apply("floor_divide", [a, b])
    if any(isinstance(each, float) or (isinstance(each, Expr) and each.dtype.kind == "f") for each in (a, b)):
        return apply("trunc", [apply("div", [a, b])])
    # without the remainder the division of whole numbers is exact, of any size
    return apply("floor_divide", [apply("sub", [a, apply("fmod", [a, b])]), b])


@file_operator("aten::size", "Tensor.size", operands=Count(1, 2))
def size(op: OperatorContext) -> Any:
    """The shape of a tensor, or one size of it."""
    x = op.x
    dim = op.operand(1) if len(op.passed) > 1 else op.argument("dim", None)
    return x.shape if dim is None else apply("size", [x, dim])


@file_operator("aten::numel", "torch.numel", "Tensor.numel", operands=Count(1, 1))
def numel(op: OperatorContext) -> int:
    """The number of elements of a tensor."""
    return op.x.size


@file_operator("aten::Int", "prim::NumToTensor", "aten::ScalarImplicit", operands=Count(1, 1))
def number(op: OperatorContext) -> Any:
    """A plain number as it is."""
    (value,) = op.operands
    if isinstance(value, Expr):
        raise OperandError(f"the operand is {value!r}", rule="a size must be known before anything is computed")
    return value
