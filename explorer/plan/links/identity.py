"""Operations that have nothing to do: their operand stands for them."""

# ruff: noqa: D102  # match() is documented once, by Link

from __future__ import annotations

from explorer.core.expr import Expr
from explorer.ops.arithmetic import Add, AddN, Divide, Multiply, Power, Subtract
from explorer.ops.elementwise import Absolute, Relu
from explorer.ops.joining import Stack
from explorer.ops.movement import BroadcastTo, Cast, Reshape, Transpose
from explorer.ops.parts import Member, Part
from explorer.ops.reduce import Max, Mean, Min, Sum
from explorer.plan.graph import Graph
from explorer.plan.links.match import CONSTANTS, MEMBERS, constant, is_known_nonnegative, member, producer
from explorer.plan.rule import Answer, Applied, Declined, Link


class NeutralNumber(Link):
    """x + 0, x − 0, x · 1, x / 1 and x to the power 1 are x.

    Values never change beyond rounding, and 0.0 and −0.0 are one number: where x is −0.0 it stays so, though −0.0 + 0
    is 0.0. Only what tells the zeros apart (1 / x, say) sees that; log(exp(x)) is x by the same rule.
    """

    roots = (Add, Subtract, Multiply, Divide, Power)
    over = CONSTANTS
    concrete = True

    def match(self, node: Expr, graph: Graph) -> Answer:
        a, b = graph.operands(node)
        neutral = 0 if isinstance(node.operation, (Add, Subtract)) else 1
        if constant(b, graph) == neutral:
            x = a
        elif node.operation.commutative and constant(a, graph) == neutral:
            x = b
        else:
            return None
        if x.type is not node.type:
            return Declined(
                "type",
                "{x} is {given}, the result is {wanted}",
                {"x": x, "given": repr(x.type), "wanted": repr(node.type)},
            )
        return Applied(
            x,
            "{neutral} changes nothing in {operation}",
            {"neutral": neutral, "operation": node.operation.name},
            "neutral",
        )


class NothingToDo(Link):
    """A permutation in order, a part that is all, a reshape to its shape, a reduction over no axis: the operand."""

    roots = (Transpose, Reshape, BroadcastTo, Cast, Part, Sum, Mean, Max, Min)

    def match(self, node: Expr, graph: Graph) -> Answer:
        (x,) = graph.operands(node)
        if x.type is not node.type:
            return None
        operation = node.operation
        if isinstance(operation, Transpose) and operation.axes != tuple(range(len(operation.axes))):
            return None
        if isinstance(operation, Part) and operation.spans != tuple([(0, size, 1) for size in x.shape]):
            return None
        if isinstance(operation, (Sum, Mean, Max, Min)) and any(x.shape[axis] != 1 for axis in operation.axes):
            return None
        return Applied(x, "{operation} has nothing to do here", {"operation": operation.name}, "nothing_to_do")


class SingleTerm(Link):
    """A sum of one term is the term."""

    roots = (AddN,)

    def match(self, node: Expr, graph: Graph) -> Answer:
        operands = graph.operands(node)
        if len(operands) != 1:
            return None
        return Applied(operands[0], "the sum has one term", {}, "single_term")


class AlreadySo(Link):
    """relu and |·| of what is known not to be negative are their operand; so is relu of relu."""

    roots = (Relu, Absolute)

    def match(self, node: Expr, graph: Graph) -> Answer:
        (x,) = graph.operands(node)
        if not is_known_nonnegative(x) or x.type is not node.type:
            return None
        return Applied(x, "{x} is never negative", {"x": x}, "nonnegative_already")


class MemberOfStack(Link):
    """A member of a stack is what was stacked there."""

    roots = (Member, Part)
    over = (Stack,)

    def match(self, node: Expr, graph: Graph) -> Answer:
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


class StackOfMembers(Link):
    """A stack of all members of one value, in order, is that value."""

    roots = (Stack,)
    over = MEMBERS

    def match(self, node: Expr, graph: Graph) -> Answer:
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
