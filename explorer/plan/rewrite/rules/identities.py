"""Identity operations: they are replaced by their operand.

The result must have the same bits as the operand, for every operand including zeros, infinities and NaN. 0.0 and −0.0
are equal, but 1 / x distinguishes them, so x + 0.0 is kept (assets/decisions/0010-numbers-follow-ieee-754.md). Most
identity operations are not written by users; they result from gradients, batching and files.
"""

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
from explorer.ops.nn.adaptive_pooling import AdaptiveAvgPool2d
from explorer.ops.reduction.reduce import All, AnyOf, Max, Mean, Min, Prod, Reduction, Sum
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import (
    CONSTANTS,
    MEMBERS,
    constant,
    difference,
    is_known_nonnegative,
    member,
    never_minus_zero,
    producer,
)
from explorer.plan.rewrite.rule import Answer, Reason, Rule


class NeutralNumber(Rule):
    """x + (−0.0), x − 0, x · 1, x / 1 and x to the power 1 are x, for every x; for integers, so is x + 0.

    A floating x + 0.0 is kept, because for x = −0.0 it is 0.0, and 1 / x distinguishes the two. Products and quotients
    of complex numbers are kept too, because their parts are also multiplied by 0. See assets/decisions/0010.
    """

    numerics = "exact"
    roots = (Add, Subtract, Multiply, Divide, Power)
    producers = CONSTANTS
    concrete = True

    neutral = Reason(
        "neutral",
        "`{operation}` with {neutral} is removed and `{x}` is used directly, because `{operation}` with {neutral} "
        "changes no number.",
        meaning="x − 0, x · 1, x / 1 and x to the power 1 are x to the last bit. For integers, so is x + 0.",
    )
    type = Reason(
        "type",
        "`{operation}` with {neutral} is kept, even though it changes no number, because `{x}` is {given}, but the "
        "result is {wanted}.",
        meaning="A rule never changes the shape or dtype of a result.",
        change="Write the conversion itself: x.astype(…) to another dtype, ex.broadcast_to(x, shape) to another shape.",
    )
    complex = Reason(
        "complex",
        "`{operation}` with {neutral} is kept, because `{x}` is complex, and `{operation}` changes its infinite "
        "elements: {neutral} is treated as {neutral} + 0j, and ∞ · 0 is NaN.",
        meaning="NumPy computes (∞ + 0j) · (1 + 0j) as ∞ + NaN·j. The operation changes no finite element.",
        change="Remove the operation if no element is infinite.",
    )
    minus_zero = Reason(
        "minus_zero",
        "`{operation}` with {neutral} is kept, because `{x}` may contain −0.0, which `{operation}` turns into 0.0.",
        meaning="−0.0 + 0.0 is 0.0. −0.0 and 0.0 compare equal, but 1 / 0.0 is ∞ and 1 / −0.0 is −∞.",
        change="If the sign of zeros does not matter, remove the operation.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        a, b = graph.operands(node)
        neutral = 0 if isinstance(node.operation, (Add, Subtract)) else 1
        x, number = a, constant(b, graph)
        if number != neutral and node.operation.commutative:
            x, number = b, constant(a, graph)
        if number is None or number != neutral or isinstance((b if x is a else a).operation, Zero):
            return None
        is_minus_zero = str(number) == "-0.0"
        facts = {"x": x, "operation": node.operation.name, "neutral": "−0.0" if is_minus_zero else neutral}
        if x.type is not node.type:
            facts["neutral"] = str(number)
            return self.type.declined(**facts, **difference(x, node))
        if node.dtype.kind == "c":
            if isinstance(node.operation, (Multiply, Divide)):
                return self.complex.declined(**facts)
            # Both parts of a complex number have a sign. The number −0.0 becomes −0.0 + 0.0j, so adding it turns an
            # imaginary part of −0.0 into 0.0, and so does np.power. Subtraction depends on the signs of both parts.
            return None if isinstance(node.operation, Subtract) else self.minus_zero.declined(**facts)
        # x + 0.0 and x − (−0.0) turn −0.0 into 0.0; x + (−0.0) and x − 0.0 keep it.
        signed = neutral == 0 and is_minus_zero != isinstance(node.operation, Add)
        if signed and not never_minus_zero(x):
            return self.minus_zero.declined(**facts)
        return self.neutral.applied(x, **facts)


class NoOp(Rule):
    """An identity transpose, a full slice, a reshape to the same shape or a reduction over no axes is its operand.

    The same holds for zero-width padding, concatenation of one tensor, limits of −∞ and ∞, a copy to the same device,
    and adaptive pooling to the images' own size. A reduction over axes of size 1 is its operand too. A floating sum is
    an exception: it starts from 0.0, so −0.0 becomes 0.0.
    """

    numerics = "exact"
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
        AdaptiveAvgPool2d,
        Sum,
        Mean,
        Max,
        Min,
        Prod,
        All,
        AnyOf,
    )

    nothing_to_do = Reason(
        "nothing_to_do",
        "`{operation}` is removed and its operand is used directly, because here `{operation}` changes neither the "
        "shape nor the elements.",
        meaning="Examples are a reshape to the same shape, a slice of everything, padding of width 0, and a sum over "
        "no axes.",
    )
    complex = Reason(
        "complex",
        "`{operation}` over axes of size 1 is kept, because the elements are complex: NumPy's product starts from 1 + "
        "0j, which turns an infinite element into NaN (∞ · 0).",
        meaning="NumPy computes (∞ + 0j) · (1 + 0j) as ∞ + NaN·j. The operation changes no finite element.",
        change="Remove the operation if no element is infinite.",
    )
    minus_zero = Reason(
        "minus_zero",
        "`{operation}` over axes of size 1 is kept, because `{x}` may contain −0.0: NumPy adds all elements "
        "to 0.0, and 0.0 + −0.0 is 0.0.",
        meaning="np.sum([-0.0]) is 0.0. A sum over axes of size 1 changes no other number. −0.0 and 0.0 compare equal, "
        "but 1 / 0.0 is ∞ and 1 / −0.0 is −∞.",
        change="Use reshape to remove an axis of size 1.",
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
            return self.complex.declined(**facts)
        if isinstance(operation, Reduction) and operation.axes:
            if any(x.shape[axis] != 1 for axis in operation.axes):
                return None
            if isinstance(operation, (Sum, Mean)) and x.dtype.kind not in "biu" and not never_minus_zero(x):
                return self.minus_zero.declined(**facts, x=x)
        return self.nothing_to_do.applied(x, **facts)


def _is_unlimited(operation: Clip) -> bool:
    return operation.low in (None, -math.inf) and operation.high in (None, math.inf)


class SumOfOne(Rule):
    """A sum of one term is the term."""

    numerics = "exact"
    roots = (AddN,)

    single_term = Reason(
        "single_term",
        "`add_n` is removed and its operand is used directly, because here `add_n` adds only one array.",
        meaning="ex.add_n(a, b, …) is the sum of several arrays of one shape. The sum of one array is the array.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        operands = graph.operands(node)
        if len(operands) != 1:
            return None
        return self.single_term.applied(operands[0])


class BroadcastOperand(Rule):
    """x + broadcast_to(y, shape) is x + y if x has the shape; gradients of sums and means contain such views."""

    numerics = "exact"
    roots = (Add, Subtract, Multiply, Divide, AddN)
    producers = (BroadcastTo,)

    broadcast_anyway = Reason(
        "broadcast_anyway",
        "{count:broadcast_to is|broadcast_to are} removed before `{operation}`, because `{whole}` already has the "
        "shape of the result, so `{operation}` broadcasts its other operands anyway.",
        meaning="NumPy broadcasts the operands of elementwise operations: x + np.broadcast_to(y, x.shape) is x + y.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        operands = graph.operands(node)
        views = {operand.uid for operand in operands if isinstance(operand.operation, BroadcastTo)}
        whole = next((each for each in operands if each.uid not in views and each.shape == node.shape), None)
        if not views or whole is None:
            return None
        new = node.operation(*[graph.operand(each, 0) if each.uid in views else each for each in operands])
        count = sum([operand.uid in views for operand in operands])
        return self.broadcast_anyway.applied(new, count=count, operation=node.operation.name, whole=whole)


class RedundantActivation(Rule):
    """relu(x) and |x| are x if x is known to be nonnegative, for example if x is the result of relu.

    |√x| is kept, because √(−0.0) is −0.0, whose absolute value is 0.0. relu(√x) is √x, because relu keeps −0.0.
    """

    numerics = "exact"
    roots = (Relu, Absolute)

    nonnegative = Reason(
        "nonnegative_already",
        "`{operation}` is removed, because `{x}` is never negative, and `{operation}` does not change numbers ≥ 0.",
        meaning="The operation that produces a value determines its range: results of relu, exp and square, for "
        "example, are never negative.",
    )
    minus_zero = Reason(
        "minus_zero",
        "`{operation}` is kept, even though `{x}` is never below 0, because `{x}` may contain −0.0, which "
        "`{operation}` turns into 0.0.",
        meaning="√(−0.0) is −0.0. −0.0 and 0.0 compare equal, but 1 / 0.0 is ∞ and 1 / −0.0 is −∞.",
        change="If the sign of zeros does not matter, remove the operation.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (x,) = graph.operands(node)
        if not is_known_nonnegative(x) or x.type is not node.type:
            return None
        if isinstance(node.operation, Absolute) and not never_minus_zero(x):
            return self.minus_zero.declined(x=x, operation=node.operation.name)
        return self.nonnegative.applied(x, x=x, operation=node.operation.name)


class IndexOfStack(Rule):
    """The element of a stack at an index is the operand with this index.

    Batching stacks some operands that are later read individually.
    """

    numerics = "exact"
    roots = (Index0, Slice)
    producers = (Stack,)

    stacked = Reason(
        "member_of_stack",
        "Element {index} of `{stacked}` is not taken from the stack: the array that was stacked at this index is used "
        "directly, because both are the same.",
        meaning="np.stack([a, b])[1] is b.",
    )
    type = Reason(
        "type",
        "The element is taken from the stack, instead of using `{value}` directly, because stacking converted "
        "`{value}` from {given} to {wanted}.",
        meaning="np.stack converts all arrays to one dtype. A rule never changes the dtype of a result.",
        change="Stack arrays of one dtype.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        selection = member(node, graph)
        if selection is None or producer(selection[0], Stack) is None:
            return None
        stacked, index = selection
        value = graph.operand(stacked, index)
        if value.type is not node.type:
            return self.type.declined(value=value, **difference(value, node))
        return self.stacked.applied(value, index=index, stacked=stacked)


class StackOfMembers(Rule):
    """A stack of all rows of one value, in order, is this value."""

    numerics = "exact"
    roots = (Stack,)
    producers = MEMBERS

    whole = Reason(
        "stack_of_members",
        "Nothing is stacked and `{whole}` is used directly, because the stack consists of all {count} rows of "
        "`{whole}`, in order.",
        meaning="If x has three rows, np.stack([x[0], x[1], x[2]]) is x.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        members = graph.operands(node)
        first = member(members[0], graph)
        if first is None:
            return None
        source, _ = first
        if source.type is not node.type:
            return None
        for index, operand in enumerate(members):
            selection = member(operand, graph)
            if selection is None or selection[0] is not source or selection[1] != index:
                return None
        return self.whole.applied(source, count=len(members), whole=source)
