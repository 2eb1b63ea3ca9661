"""Taking a divisor out of a value: the gradients of logarithms divide by what may have underflowed or overflowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from explorer.core.expr import Expr
from explorer.ops.arithmetic import Add, AddN, Divide, Multiply, Subtract, add_n
from explorer.ops.base import broadcast_to, cast, reshape
from explorer.ops.elementwise import Exp, Negative, Sigmoid, Square
from explorer.ops.loss import NllLossGradient, Softmax
from explorer.ops.movement import BroadcastTo, Reshape
from explorer.ops.reduce import Sum
from explorer.ops.structured import full
from explorer.plan.graph import Graph
from explorer.plan.links.match import constant, producer, same

Test: TypeAlias = Callable[[Expr], bool]
_DEPTH = 8
_REACH = 32
DIVISORS = (Add, BroadcastTo, Exp, Multiply, Reshape, Sigmoid, Softmax, Subtract, Sum)
"""what makes divisors that can be taken out of a quotient, and products and views of them"""
_LOOKED_THROUGH = (Add, AddN, BroadcastTo, Multiply, Negative, Reshape, Square, Subtract, Sum)


def is_value(value: Expr, graph: Graph) -> Test:
    """The divisor ``value`` itself."""
    return lambda divisor: divisor.shape == value.shape and same(divisor, value, graph)


def is_one_minus(value: Expr, graph: Graph) -> Test:
    """The divisor 1 − ``value``."""

    def test(divisor: Expr) -> bool:
        if producer(divisor, Subtract) is None or divisor.shape != value.shape:
            return False
        one, other = graph.operands(divisor)
        return constant(one, graph) == 1 and same(other, value, graph)

    return test


def is_one_plus(value: Expr, graph: Graph) -> Test:
    """The divisor 1 + ``value``."""

    def test(divisor: Expr) -> bool:
        if producer(divisor, Add) is None or divisor.shape != value.shape:
            return False
        a, b = graph.operands(divisor)
        return (constant(a, graph) == 1 and same(b, value, graph)) or (
            constant(b, graph) == 1 and same(a, value, graph)
        )

    return test


def is_complement(value: Expr, graph: Graph) -> Test:
    """The divisor 1 − sigmoid(x) where ``value`` is sigmoid(−x): the same number."""

    def test(divisor: Expr) -> bool:
        if producer(divisor, Subtract) is None or divisor.shape != value.shape or producer(value, Sigmoid) is None:
            return False
        one, other = graph.operands(divisor)
        if constant(one, graph) != 1 or producer(other, Sigmoid) is None:
            return False
        return are_opposite(graph.operands(other)[0], graph.operands(value)[0], graph)

    return test


def inverts_one_plus(powers: Expr, graph: Graph) -> Test:
    """1 / (1 + eˣ) as the sigmoid of −x."""
    (x,) = graph.operands(powers)

    def test(value: Expr) -> bool:
        sigmoid = producer(value, Sigmoid) is not None and value.shape == powers.shape
        return sigmoid and are_opposite(graph.operands(value)[0], x, graph)

    return test


def are_opposite(a: Expr, b: Expr, graph: Graph) -> bool:
    """Whether one of two values is written as the negative of the other."""
    for negative, other in ((a, b), (b, a)):
        if producer(negative, Negative) is not None and same(graph.operands(negative)[0], other, graph):
            return True
    return False


def terms(value: Expr, graph: Graph, depth: int = _DEPTH) -> list[Expr]:
    """The terms of a sum, of sums of sums too; the value alone where it is none."""
    if depth and isinstance(value.operation, Negative):
        (inner,) = graph.operands(value)
        found = terms(inner, graph, depth - 1)
        return [-term for term in found] if len(found) > 1 else [value]
    if depth and isinstance(value.operation, Subtract):
        left, right = [broadcast_to(operand, value.shape) for operand in graph.operands(value)]
        return [*terms(left, graph, depth - 1), *[-term for term in terms(right, graph, depth - 1)]]
    if depth and isinstance(value.operation, (Add, AddN)):
        operands = graph.operands(value)
        if len(operands) <= 2 * _DEPTH and all(operand.shape == value.shape for operand in operands):
            return [term for operand in operands for term in terms(operand, graph, depth - 1)]
    return [value]


def has_quotient(value: Expr, graph: Graph) -> bool:
    """Whether a quotient is among the terms and factors of a value, as far as a few steps reach."""
    pending, left = [value], _REACH
    while pending and left:
        left -= 1
        node = pending.pop()
        operation = node.operation
        if isinstance(operation, NllLossGradient):
            return True
        if isinstance(operation, Divide):
            value, divisor = graph.operands(node)
            if isinstance(divisor.operation, DIVISORS):
                return True
            pending.append(value)
        elif isinstance(operation, _LOOKED_THROUGH):
            pending.extend(graph.operands(node)[:_DEPTH])
    return False


def numerator(
    value: Expr, divides: Test, graph: Graph, depth: int = _DEPTH, inverts: Test | None = None
) -> Expr | None:
    """n where ``value`` is n / d, element by element, for a divisor d that ``divides`` knows; None where it is not.

    ``inverts`` knows values that are 1 / d.
    """
    if not depth:
        return None
    operation, operands = value.operation, graph.operands(value)

    def of(part: Expr) -> Expr | None:
        return numerator(part, divides, graph, depth - 1, inverts) if part.shape == value.shape else None

    found: Expr | None = None
    if inverts is not None and inverts(value):
        found = full((), 1, value.dtype, value.device)
    elif isinstance(operation, Negative):
        inner = of(operands[0])
        found = -inner if inner is not None else None
    elif isinstance(operation, Square):
        inner = of(operands[0])
        found = inner * operands[0] if inner is not None else None
    elif isinstance(operation, Divide):
        found = _of_quotient(operands[0], operands[1], value, divides, graph)
        if found is None:
            inner = of(operands[0])
            found = inner / operands[1] if inner is not None else None
    elif isinstance(operation, Multiply):
        for factor, other in (operands, operands[::-1]):
            inner = of(factor)
            if inner is not None:
                found = inner * other
                break
    elif isinstance(operation, NllLossGradient) and divides(operands[2]):
        truth = cast(operands[1], value.dtype)
        found = -(truth * (operands[0] / truth.sum()))
    return None if found is None else broadcast_to(found, value.shape)


def _of_quotient(n: Expr, d: Expr, value: Expr, divides: Test, graph: Graph) -> Expr | None:
    if divides(d):
        return n
    if isinstance(d.operation, Multiply):
        for factor, other in (graph.operands(d), graph.operands(d)[::-1]):
            if factor.shape == value.shape and divides(factor):
                return n / other
    return None


class Total:
    """The sum of ``powers`` over axes, and values divided by it, in any of the shapes that broadcasting needs."""

    def __init__(self, powers: Expr, reduction: Sum, graph: Graph) -> None:
        self.powers, self.axes, self.graph = powers, reduction.axes, graph
        self.kept = tuple([1 if axis in reduction.axes else size for axis, size in enumerate(powers.shape)])
        self.bare = tuple([size for axis, size in enumerate(powers.shape) if axis not in reduction.axes])

    def is_sum(self, node: Expr) -> bool:
        """Whether a node is the sum, without its axes or with size 1 there."""
        reduction = producer(node, Sum)
        return (
            reduction is not None
            and reduction.axes == self.axes
            and same(self.graph.operands(node)[0], self.powers, self.graph)
        )

    def is_aligned(self, node: Expr) -> bool:
        """Whether a node is the sum in a shape whose axes meet those of the powers."""
        if isinstance(node.operation, BroadcastTo):
            (node,) = self.graph.operands(node)
        if (1,) * (len(self.kept) - node.ndim) + node.shape != self.kept:  # broadcasting puts missing axes in front
            return False
        while isinstance(node.operation, Reshape):
            (node,) = self.graph.operands(node)
        return self.is_sum(node)

    def numerator(self, value: Expr, depth: int = _DEPTH) -> Expr | None:
        """n, of the value's shape, where the value is n divided by the sum spread to that shape."""
        operation, operands = value.operation, self.graph.operands(value)
        if not depth or value.ndim != self.powers.ndim:
            return None
        if value.shape == self.kept:
            return self._of_kept(value, depth)
        if isinstance(operation, BroadcastTo):
            (inner,) = operands
            found = self._of_kept(inner, depth - 1) if inner.shape == self.kept else None
            return None if found is None else broadcast_to(found, value.shape)
        found = numerator(value, self.is_aligned, self.graph, depth - 1)
        return self._of_factor(value, depth) if found is None else found

    def _of_factor(self, value: Expr, depth: int) -> Expr | None:
        """The numerator of a product of which one factor has the sum below it."""
        operands = self.graph.operands(value)
        if isinstance(value.operation, Negative):
            inner = self.numerator(operands[0], depth - 1)
            return None if inner is None else -inner
        if isinstance(value.operation, Multiply):
            for factor, other in (operands, operands[::-1]):
                inner = self.numerator(factor, depth - 1) if factor.shape == value.shape else None
                if inner is not None:
                    return inner * other
        return None

    def _of_kept(self, value: Expr, depth: int) -> Expr | None:
        found = numerator(value, self.is_aligned, self.graph, depth)
        if found is not None:
            return found
        if isinstance(value.operation, Reshape):
            (inner,) = self.graph.operands(value)
            found = self._of_bare(inner, depth - 1) if inner.shape == self.bare else None
            return None if found is None else reshape(found, self.kept)
        if depth and isinstance(value.operation, AddN) and all(o.shape == self.kept for o in value.operands):
            each = [self._of_kept(operand, depth - 1) for operand in self.graph.operands(value)]
            found_all = [one for one in each if one is not None]
            return add_n(*found_all) if len(found_all) == len(each) else None
        return self._of_sum(value, depth)

    def _of_bare(self, value: Expr, depth: int) -> Expr | None:
        found = numerator(value, self.is_sum, self.graph, depth)
        return found if found is not None else self._of_sum(value, depth)

    def _of_sum(self, value: Expr, depth: int) -> Expr | None:
        reduction = producer(value, Sum)
        if reduction is None or reduction.axes != self.axes or not depth:
            return None
        (inner,) = self.graph.operands(value)
        found = self.numerator(inner, depth - 1)
        return None if found is None else reduction(found)
