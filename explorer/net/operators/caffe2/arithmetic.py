"""Arithmetic, with shapes broadcast as NumPy does."""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.net.operators.caffe2.table import net_operator
from explorer.ops.elementwise.arithmetic import add_n
from explorer.ops.linalg.matmul import swap


@net_operator(in_place=((0, 0), (1, 0)))
def Add(a: Expr, b: Expr) -> Expr:
    """a + b."""
    return a + b


@net_operator(in_place=((0, 0), (1, 0)))
def Sub(a: Expr, b: Expr) -> Expr:
    """a − b."""
    return a - b


@net_operator(in_place=((0, 0), (1, 0)))
def Mul(a: Expr, b: Expr) -> Expr:
    """a · b, element by element."""
    return a * b


@net_operator(in_place=((0, 0), (1, 0)))
def Div(a: Expr, b: Expr) -> Expr:
    """a / b, element by element."""
    return a / b


@net_operator(in_place=True)
def Sum(first: Expr, *others: Expr) -> Expr:
    """The sum of all operands, from left to right."""
    return add_n(first, *others) if others else first


@net_operator()
def MatMul(a: Expr, b: Expr, *, trans_a: bool = False, trans_b: bool = False) -> Expr:
    """The product of matrices, or of stacks of them, each transposed first where that is asked for."""
    return (swap(a) if trans_a else a) @ (swap(b) if trans_b else b)
