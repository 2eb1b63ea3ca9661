"""Operands and weights whose axes an operator counts on: checked before a length is read from a shape."""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape
from explorer.net.operators.context import OperatorContext


def with_rank(op: OperatorContext, name: str, value: Expr, *axes: str) -> Expr:
    """An operand that has the axes with these names; raises OperandError where it has more or fewer."""
    if value.ndim != len(axes):
        raise OperandError(
            f"{name} is {value.type}", rule=f"{op.definition.type}: {name} must have the axes ({', '.join(axes)})"
        )
    return value


def with_shape(op: OperatorContext, name: str, value: Expr, shape: Shape) -> Expr:
    """An operand of this shape; raises OperandError where it has another: a slice of it would be shorter, unseen."""
    if value.shape != shape:
        raise OperandError(f"{name} is {value.type}", rule=f"{op.definition.type}: {name} must have the shape {shape}")
    return value
