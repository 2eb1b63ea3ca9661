"""Factors that divide what they multiply, where they may be rounded to 0 or ∞: second gradients are full of them."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.core.expr import Expr
from explorer.core.types import Shape
from explorer.ops.arithmetic import AddN, Divide, Multiply, Subtract, add_n
from explorer.ops.base import reshape
from explorer.ops.elementwise import Exp, Negative, Sigmoid, SigmoidGradient
from explorer.ops.loss import Softmax
from explorer.ops.movement import BroadcastTo, Reshape
from explorer.ops.reduce import Sum
from explorer.ops.structured import full
from explorer.plan.graph import Graph
from explorer.plan.links.match import constant, is_real, producer, same
from explorer.plan.links.quotient import DIVISORS, Total, is_one_plus, terms
from explorer.plan.links.stable import as_node
from explorer.plan.rule import Answer, Applied, Link

_FACTORS = 16
"""factors of a product, and of what divides it, and terms of a sum, that are looked at"""
_DEPTH = 2
"""sums inside sums whose terms are looked at for a factor that all have"""


class _Cancelling(Link, abstract=True):
    """Takes out what stands on both sides of a fraction."""

    def match(self, node: Expr, graph: Graph) -> Answer:
        first, second = graph.operands(node)
        if not (_may_cancel(node, graph) or _may_cancel(first, graph) or _may_cancel(second, graph)):
            return None
        if not is_real(node):
            return None
        ratio = _Ratio.of(node, graph)
        if not ratio.below or any(factor.dtype != node.dtype for factor in (*ratio.above, *ratio.below)):
            return None
        cancelled = [factor for factor in [*ratio.below] if ratio.cancel(factor, graph)]
        if not cancelled:
            return None
        reason = "{factors} divide and multiply: they are positive, but may be rounded to 0 or ∞"
        return Applied(as_node(ratio.value(node, graph), node), reason, {"factors": cancelled}, "factors_cancelled")


class FactorOverItself(_Cancelling):
    """(n / s)·(m·s) is n·m for the result s of exp, a softmax or a sigmoid, and for 1 − s: all are positive."""

    roots = (Multiply,)
    over = (Divide,)


class ProductOverFactor(_Cancelling):
    """(n·s) / s is n for such an s, (n·eˣ) / (1 + eˣ) is n·sigmoid(x), (n·eˣ) / Σ eˣ is n·softmax(x)."""

    roots = (Divide,)
    over = (*DIVISORS, AddN, Divide, Negative, SigmoidGradient)


@dataclass
class _Ratio:
    """A product of factors, divided by others."""

    above: list[Expr]
    below: list[Expr]
    negative: bool

    @classmethod
    def of(cls, value: Expr, graph: Graph) -> _Ratio:
        ratio = cls([], [], False)
        pending = [(value, True)]
        while pending:
            node, multiplies = pending.pop()
            operands, many = graph.operands(node), len(pending) + len(ratio.above) + len(ratio.below) >= _FACTORS
            if isinstance(node.operation, Negative):
                ratio.negative = not ratio.negative
                pending.append((operands[0], multiplies))
            elif isinstance(node.operation, (Multiply, Divide)) and not many:
                first, second = operands
                pending.append((first, multiplies))
                pending.append((second, multiplies != isinstance(node.operation, Divide)))
            elif isinstance(node.operation, SigmoidGradient) and multiplies and not many:
                pending.extend([(operands[0], True), (operands[1], True), (1 - operands[1], True)])
            else:
                (ratio.above if multiplies else ratio.below).append(node)
        return ratio

    def cancel(self, divisor: Expr, graph: Graph, depth: int = _DEPTH) -> bool:
        """Take a divisor out, where what it divides has it as a factor, or has a power of which it is a sum."""
        for place, factor in enumerate(self.above):
            left = _left(factor, divisor, graph, depth)
            if left is not None:
                self.above[place : place + 1] = left
                del self.below[next(i for i, other in enumerate(self.below) if other is divisor)]
                return True
        return False

    def value(self, node: Expr, graph: Graph) -> Expr:
        """The product of what is left, over the rest."""
        value = _product(self.above, graph) if self.above else full((), 1, node.dtype, node.device)
        if self.below:
            value = value / _product(self.below, graph)
        return -value if self.negative else value


def _product(factors: list[Expr], graph: Graph) -> Expr:
    """The product of factors, numbers last: the product of two numbers may be too large for a float."""
    value, *rest = sorted(factors, key=lambda factor: constant(factor, graph) is not None)
    for factor in rest:
        value = value * factor
    return value


def _may_cancel(value: Expr, graph: Graph) -> bool:
    """Whether a value is a quotient whose divisor is of a kind that can be cancelled."""
    return isinstance(value.operation, Divide) and isinstance(graph.operand(value, 1).operation, DIVISORS)


def _left(factor: Expr, divisor: Expr, graph: Graph, depth: int) -> list[Expr] | None:
    """The factors that a factor leaves over a divisor; None where they have nothing to do with each other."""
    if _is_positive(divisor, graph):
        if divisor.type is factor.type and same(factor, divisor, graph):
            return []
        return _each_left(factor, divisor, graph, depth - 1) if depth else None
    if producer(factor, Exp) is None:
        return _sum_left(factor, divisor, graph)
    (x,) = graph.operands(factor)
    if x.dtype != factor.dtype:
        return None
    if is_one_plus(factor, graph)(divisor):
        return [Sigmoid()(x)]
    found = _summed(divisor, graph)
    reduction = None if found is None else producer(found[0], Sum)
    if reduction is None or not reduction.axes or not Total(factor, reduction, graph).is_aligned(divisor):
        return None
    return [Softmax(reduction.axes)(x)]


def _each_left(value: Expr, divisor: Expr, graph: Graph, depth: int) -> list[Expr] | None:
    """What a sum leaves over a divisor that all its terms have as a factor."""
    found = terms(value, graph)
    if not 1 < len(found) <= _FACTORS or any(term.type is not divisor.type for term in found):
        return None
    left = []
    for term in found:
        ratio = _Ratio.of(term, graph)
        ratio.below.append(divisor)
        if not ratio.cancel(divisor, graph, depth):
            return None
        left.append(as_node(ratio.value(term, graph), term))
    return [add_n(*left)]


def _sum_left(factor: Expr, divisor: Expr, graph: Graph) -> list[Expr] | None:
    """Σ m·softmax(x) where the factor is Σ m·eˣ and the divisor Σ eˣ, in one of the shapes that broadcasting needs."""
    first, second = _summed(factor, graph), _summed(divisor, graph)
    if first is None or second is None or first[1] != second[1]:
        return None
    reduction, of = producer(first[0], Sum), producer(second[0], Sum)
    (weighted,), (power,) = graph.operands(first[0]), graph.operands(second[0])
    if reduction is None or of is None or reduction.axes != of.axes:
        return None
    if producer(power, Exp) is None or power.type is not weighted.type:
        return None
    ratio, (x,) = _Ratio.of(weighted, graph), graph.operands(power)
    place = next((i for i, other in enumerate(ratio.above) if same(other, power, graph)), None)
    if place is None or x.dtype != power.dtype:
        return None
    ratio.above[place] = Softmax(reduction.axes)(x)
    return [reshape(reduction(as_node(ratio.value(weighted, graph), weighted)), first[1])]


def _summed(value: Expr, graph: Graph) -> tuple[Expr, Shape] | None:
    """The sum over some axes that a value is, reshaped and then spread, and the shape that it has before."""
    if isinstance(value.operation, BroadcastTo):
        (value,) = graph.operands(value)
    shape = value.shape
    while isinstance(value.operation, Reshape):
        (value,) = graph.operands(value)
    reduction = producer(value, Sum)
    return (value, shape) if reduction is not None and reduction.axes else None


def _is_positive(value: Expr, graph: Graph) -> bool:
    """Whether a value is the result of exp, a softmax or a sigmoid, or 1 minus that of a sigmoid."""
    if isinstance(value.operation, (Exp, Softmax, Sigmoid)):
        return True
    if producer(value, Subtract) is None:
        return False
    one, s = graph.operands(value)
    return constant(one, graph) == 1 and producer(s, Sigmoid) is not None
