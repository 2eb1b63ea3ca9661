"""Operations that have nothing to do: their operand stands for them."""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

import math

from explorer.core.ir.expr import Expr
from explorer.ops.creation.constants import Zero
from explorer.ops.elementwise.arithmetic import Add, AddN, Divide, Multiply, Power, Subtract
from explorer.ops.elementwise.unary import Absolute, Positive, Relu
from explorer.ops.manipulation.concat import Concatenate, Stack
from explorer.ops.manipulation.device_copy import ToDevice
from explorer.ops.manipulation.padding import Pad
from explorer.ops.manipulation.reshape import BroadcastTo, Cast, Reshape, Transpose
from explorer.ops.manipulation.slicing import Index0, Slice
from explorer.ops.nn.activation import Clip
from explorer.ops.reduction.reduce import All, AnyOf, Max, Mean, Min, Prod, Reduction, Sum
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import (
    CONSTANTS,
    MEMBERS,
    constant,
    is_known_nonnegative,
    member,
    never_minus_zero,
    producer,
)
from explorer.plan.rewrite.rule import Answer, Applied, Declined, Rule


class NeutralNumber(Rule):
    """x + (−0.0), x − 0, x · 1, x / 1 and x to the power 1 are x, for every x; of integers x + 0 is, too.

    A floating x + 0.0 is not: where x is −0.0 it is 0.0, which 1 / x tells apart. Nor are products and quotients of
    complex numbers, whose parts are multiplied by 0, too. See assets/decisions/0010.
    """

    roots = (Add, Subtract, Multiply, Divide, Power)
    producers = CONSTANTS
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        a, b = graph.operands(node)
        neutral = 0 if isinstance(node.operation, (Add, Subtract)) else 1
        x, number = a, constant(b, graph)
        if number != neutral and node.operation.commutative:
            x, number = b, constant(a, graph)
        if number is None or number != neutral or isinstance((b if x is a else a).operation, Zero):
            return None
        below = str(number) == "-0.0"
        facts = {"x": x, "operation": node.operation.name, "neutral": "−0.0" if below else neutral}
        if x.type is not node.type:
            told = {**facts, "given": repr(x.type), "wanted": repr(node.type)}
            return Declined("type", "{x} is {given}, the result is {wanted}", told)
        if node.dtype.kind == "c":
            reason = "{operation} of complex numbers computes with the imaginary 0 of {neutral}, and 0 · ∞ is NaN"
            return Declined("complex", reason, facts)
        signed = neutral == 0 and below != isinstance(node.operation, Add)
        if signed and not never_minus_zero(x):
            reason = "{x} may hold −0.0, of which {operation} with {neutral} makes 0.0"
            return Declined("minus_zero", reason, facts)
        return Applied(x, "{neutral} changes nothing in {operation}", facts, "neutral")


class NoOp(Rule):
    """A permutation in order, a part that is all, a reshape to its shape, a reduction over no axis: the operand.

    So are padding of no width, a concatenation of one tensor, limits of −∞ and ∞, a copy to the device where it is.
    A reduction over axes of size 1 is its operand, too; but a floating sum starts from 0.0, so that −0.0 becomes 0.0.
    """

    roots = (
        Transpose,
        Reshape,
        BroadcastTo,
        Cast,
        Slice,
        Pad,
        Concatenate,
        Clip,
        ToDevice,
        Positive,
        Sum,
        Mean,
        Max,
        Min,
        Prod,
        All,
        AnyOf,
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        operands = graph.operands(node)
        x, operation = operands[0], node.operation
        if len(operands) > 1 or x.type is not node.type:
            return None
        facts = {"operation": operation.name}
        if isinstance(operation, Transpose) and operation.axes != tuple(range(len(operation.axes))):
            return None
        if isinstance(operation, Slice) and operation.spans != tuple([(0, size, 1) for size in x.shape]):
            return None
        if isinstance(operation, Clip) and not _is_unlimited(operation):
            return None
        if isinstance(operation, Prod) and x.dtype.kind == "c":
            return Declined("complex", "{operation} of complex numbers starts from 1 + 0j, and 0 · ∞ is NaN", facts)
        if isinstance(operation, Reduction) and operation.axes:
            if any(x.shape[axis] != 1 for axis in operation.axes):
                return None
            if isinstance(operation, (Sum, Mean)) and x.dtype.kind in "fc" and not never_minus_zero(x):
                reason = "{operation} of one element starts from 0.0: {x} may hold −0.0, of which it makes 0.0"
                return Declined("minus_zero", reason, {**facts, "x": x})
        return Applied(x, "{operation} has nothing to do here", facts, "nothing_to_do")


def _is_unlimited(operation: Clip) -> bool:
    """Whether every number lies between the limits."""
    return operation.low in (None, -math.inf) and operation.high in (None, math.inf)


class SumOfOne(Rule):
    """A sum of one term is the term."""

    roots = (AddN,)

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        operands = graph.operands(node)
        if len(operands) != 1:
            return None
        return Applied(operands[0], "the sum has one term", {}, "single_term")


class RedundantActivation(Rule):
    """relu and |·| of what is known not to be negative are their operand; so is relu of relu.

    Of √x it is not known: √(−0.0) is −0.0, of which |·| makes 0.0.
    """

    roots = (Relu, Absolute)

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (x,) = graph.operands(node)
        if not is_known_nonnegative(x) or x.type is not node.type:
            return None
        if isinstance(node.operation, Absolute) and not never_minus_zero(x):
            reason = "{x} may hold −0.0, of which {operation} makes 0.0"
            return Declined("minus_zero", reason, {"x": x, "operation": node.operation.name})
        return Applied(x, "{x} is never negative", {"x": x}, "nonnegative_already")


class IndexOfStack(Rule):
    """A member of a stack is what was stacked there."""

    roots = (Index0, Slice)
    producers = (Stack,)

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        taken = member(node, graph)
        if taken is None or producer(taken[0], Stack) is None:
            return None
        stacked, index = taken
        value = graph.operand(stacked, index)
        if value.type is not node.type:
            facts = {"value": value, "given": repr(value.type)}
            return Declined("type", "{value} is {given} before it is stacked", facts)
        return Applied(
            value,
            "member {index} of {stacked} is what was stacked there",
            {"index": index, "stacked": stacked},
            "member_of_stack",
        )


class StackOfMembers(Rule):
    """A stack of all members of one value, in order, is that value."""

    roots = (Stack,)
    producers = MEMBERS

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        members = graph.operands(node)
        first = member(members[0], graph)
        if first is None:
            return None
        whole, _ = first
        if whole.type is not node.type:
            return None
        for index, other in enumerate(members):
            taken = member(other, graph)
            if taken is None or taken[0] is not whole or taken[1] != index:
                return None
        return Applied(
            whole,
            "all {count} members of {whole} in order are {whole} itself",
            {"count": len(members), "whole": whole},
            "stack_of_members",
        )
