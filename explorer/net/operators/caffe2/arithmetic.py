"""Arithmetic operator types, with NumPy's broadcasting.

A result may overwrite an operand, as in Caffe2; ``in_place`` contains the allowed pairs. ``by_output`` marks types
whose gradients do not need the operands, which may therefore be overwritten before the gradient is computed.
"""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.net.operators.caffe2.table import net_operator
from explorer.ops.base import cast, reshape
from explorer.ops.elementwise.arithmetic import add_n
from explorer.ops.linalg.matmul import swap
from explorer.record.reasons import counted_text


@net_operator(in_place=((0, 0), (1, 0)), by_output=True)
def Add(a: Expr, b: Expr) -> Expr:
    """Return a + b."""
    return a + b


@net_operator(in_place=((0, 0), (1, 0)), by_output=True)
def Sub(a: Expr, b: Expr) -> Expr:
    """Return a − b."""
    return a - b


@net_operator(in_place=((0, 0), (1, 0)))
def Mul(a: Expr, b: Expr) -> Expr:
    """Return a · b, elementwise."""
    return a * b


@net_operator(in_place=((0, 0), (1, 0)))
def Div(a: Expr, b: Expr) -> Expr:
    """Return a / b, elementwise."""
    return a / b


@net_operator(in_place=True, by_output=True)
def Sum(first: Expr, *others: Expr) -> Expr:
    """Return the sum of all operands, from left to right."""
    return add_n(first, *others) if others else first


@net_operator(in_place=True, gradient="missing")
def WeightedSum(first: Expr, weight: Expr, *others: Expr) -> Expr:
    """Return x₀·w₀ + x₁·w₁ + …; the operands are alternately a blob and its scalar weight."""
    operands = (first, weight, *others)
    if len(operands) % 2:
        raise OperandError(
            f"{counted_text(len(operands), 'operand')}",
            rule="WeightedSum: each blob must be followed by its weight",
            fix='net.WeightedSum(["w", "one", "w_grad", "minus_rate"], "w")',
        )
    for factor in operands[1::2]:
        if factor.size != 1:
            raise OperandError(
                f"a weight {factor.type}",
                rule="WeightedSum: a weight must be one number",
                fix="a blob of shape () or (1,)",
            )
    terms = [x * cast(reshape(factor, ()), x.dtype) for x, factor in zip(operands[::2], operands[1::2], strict=True)]
    return add_n(*terms)


@net_operator()
def MatMul(a: Expr, b: Expr, *, trans_a: bool = False, trans_b: bool = False) -> Expr:
    """Return the product of matrices, or of stacks of matrices, each optionally transposed first."""
    return (swap(a) if trans_a else a) @ (swap(b) if trans_b else b)


@net_operator()
def BatchMatMul(a: Expr, b: Expr, *, trans_a: bool = False, trans_b: bool = False, broadcast: bool = False) -> Expr:
    """Return the products of the matrices in two equal stacks; with ``broadcast``, NumPy's broadcasting applies."""
    if not broadcast and a.shape[:-2] != b.shape[:-2]:
        raise OperandError(
            f"stacks of matrices {a.type} and {b.type}",
            rule="BatchMatMul: the axes before the last two must be equal",
            fix='net.BatchMatMul(["a", "b"], "y", broadcast=True), for a matrix and a stack',
        )
    return (swap(a) if trans_a else a) @ (swap(b) if trans_b else b)
