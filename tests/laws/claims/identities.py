"""Checks of rules that remove operations with no effect or replace them with cheaper ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.ops.creation.constants import Full
from explorer.ops.elementwise.arithmetic import Add, Subtract
from explorer.ops.elementwise.unary import Absolute, Square
from explorer.ops.manipulation.device_copy import ToDevice
from explorer.ops.manipulation.reshape import BroadcastTo
from explorer.ops.manipulation.slicing import Index0
from explorer.plan.graph.reasons import Facts
from explorer.plan.rewrite.rules import (
    identities,
    slice_of_concat,
    strength_reduction,
)
from tests.laws.claims.decisions import LARGEST, At, has_value, of_nodes
from tests.laws.claims.nodes import Expr, bits, difference, kind, names, number, same_bits, typed


def neutral_facts(at: At, node: Expr) -> Facts:
    a, b = at.operands(node)
    neutral = 0 if isinstance(node.operation, (Add, Subtract)) else 1
    x, other = (a, b) if number(at, b) == neutral or not node.operation.commutative else (b, a)
    assert number(at, other) == neutral
    return {"x": x, "operation": kind(node), "neutral": "−0.0" if str(number(at, other)) == "-0.0" else neutral}


def typed_neutral(at: At, node: Expr) -> Facts:
    facts = neutral_facts(at, node)
    other = next(each for each in at.operands(node) if each is not facts["x"])
    return {**facts, "neutral": str(number(at, other)), **difference(facts["x"], node)}


def special(node: Expr) -> Any:
    """Return the special values of a node's dtype that identities may change, such as −0.0, ∞ and NaN."""
    if node.dtype.kind == "c":
        return np.array([complex(-0.0, -0.0), complex(np.inf, np.nan), complex(np.inf, 0), 1], node.dtype)
    return np.array([-0.0, np.inf, np.nan, 1] if node.dtype.kind == "f" else [0, 1], node.dtype)


def changed_by_neutral(at: At, node: Expr) -> list[Any]:
    """Return the special values that an operation with a neutral number changes."""
    facts, numbers = neutral_facts(at, node), special(node)
    one = np.asarray(-0.0 if facts["neutral"] == "−0.0" else facts["neutral"], node.dtype)
    with np.errstate(all="ignore"):
        value = node.operation.compute(numbers, one)
    return [each for each, kept in zip(numbers, value, strict=True) if bits(each) != bits(kept)]


def broadcasts(at: At, node: Expr) -> bool:
    """Return whether an operation has the same value if its operands are not broadcast before."""
    operands = [at.operands(each)[0] if isinstance(each.operation, BroadcastTo) else each for each in at.operands(node)]
    return not has_value(node) or bits(node.operation.compute(*map(at.value, operands))) == bits(at.value(node))


def no_minus_zero(node: Expr) -> bool:
    """Return whether a node, or one of its terms if it is a sum, is never −0.0."""
    terms = node.operands if isinstance(node.operation, Add) else (node,)
    return any(
        isinstance(each.operation, (Full, Absolute, Square)) or each.operation.range in ("positive", "unit")
        for each in terms
    )


def keeps_special(at: At, node: Expr) -> bool:
    changed = changed_by_neutral(at, node)
    return same_bits(at, node) and (not changed or (changed == [0] and no_minus_zero(neutral_facts(at, node)["x"])))


neutral = identities.NeutralNumber
of_nodes(neutral.neutral, holds=keeps_special)(neutral_facts)
of_nodes(neutral.type, holds=lambda at, node: neutral_facts(at, node)["x"].type is not node.type)(typed_neutral)
of_nodes(
    neutral.complex,
    holds=lambda at, node: node.dtype.kind == "c" and complex(np.inf, 0) in changed_by_neutral(at, node),
)(neutral_facts)
of_nodes(
    neutral.minus_zero,
    holds=lambda at, node: node.dtype.kind in "fc" and changed_by_neutral(at, node) == [0],
)(neutral_facts)


def changed_by_operation(at: At, node: Expr) -> list[Any]:
    """Return the special values that an operation changes."""
    x = at.below_at(node, 0)
    if isinstance(node.operation, (BroadcastTo, ToDevice)) or x.size > LARGEST:
        return []
    results = []
    for each in special(node):
        whole = np.full(x.shape, each)
        with np.errstate(all="ignore"):
            if bits(node.operation.compute(whole)) != bits(whole):
                results.append(each)
    return results


def does_nothing(at: At, node: Expr) -> bool:
    changed = changed_by_operation(at, node)
    return same_bits(at, node) and (not changed or (changed == [0] and no_minus_zero(at.below_at(node, 0))))


of_nodes(identities.NoOp.nothing_to_do, holds=does_nothing)(lambda at, node: {"operation": kind(node)})
of_nodes(
    identities.NoOp.complex, holds=lambda at, node: node.dtype.kind == "c" and bool(changed_by_operation(at, node))
)(lambda at, node: {"operation": kind(node)})
of_nodes(identities.NoOp.minus_zero, holds=lambda at, node: 0 in changed_by_operation(at, node))(
    lambda at, node: {"operation": kind(node), **names(at, node, x=(0,))}
)
of_nodes(identities.SumOfOne.single_term, holds=lambda at, node: len(node.operands) == 1)(lambda at, node: {})
of_nodes(identities.BroadcastOperand.broadcast_anyway, holds=broadcasts)(
    lambda at, node: {
        "count": sum(isinstance(each.operation, BroadcastTo) for each in at.operands(node)),
        "operation": kind(node),
        "whole": next(
            each
            for each in at.operands(node)
            if each.shape == node.shape and not isinstance(each.operation, BroadcastTo)
        ),
    }
)
of_nodes(identities.RedundantActivation.nonnegative, holds=same_bits)(
    lambda at, node: {"operation": kind(node), **names(at, node, x=(0,))}
)
of_nodes(identities.RedundantActivation.minus_zero, holds=lambda at, node: isinstance(node.operation, Absolute))(
    lambda at, node: {"operation": kind(node), **names(at, node, x=(0,))}
)


def index_of(node: Expr) -> int:
    """Return the index of the selected row."""
    operation = node.operation
    return operation.index if isinstance(operation, Index0) else operation.spans[0]  # type: ignore[attr-defined,no-any-return]


def taken_row(at: At, node: Expr) -> Expr:
    return at.below_at(node, 0, index_of(node))


of_nodes(identities.IndexOfStack.stacked, holds=lambda at, node: taken_row(at, node).type is node.type)(
    lambda at, node: {"index": index_of(node), **names(at, node, stacked=(0,))}
)
of_nodes(identities.IndexOfStack.type, holds=lambda at, node: taken_row(at, node).type is not node.type)(
    lambda at, node: {"value": taken_row(at, node), **difference(taken_row(at, node), node)}
)


def all_of(at: At, node: Expr) -> bool:
    """Return whether all operands are parts of one value, and the node equals it."""
    whole = at.below_at(node, 0, 0)
    parts = all(at.below_at(node, place, 0) is whole for place in range(len(node.operands)))
    return parts and (not has_value(node) or bits(at.value(node)) == bits(at.value(whole)))


for whole_reason in (identities.StackOfMembers.whole, slice_of_concat.ConcatenationOfSlices.whole):
    of_nodes(whole_reason, holds=all_of)(
        lambda at, node: {"count": len(node.operands), "whole": at.below_at(node, 0, 0)}
    )


power = strength_reduction.PowerByProducts
METHODS = {
    **{2: "by one multiplication", 3: "by two multiplications", 4: "by two multiplications"},
    **{0.5: "as a square root", -1: "as a reciprocal"},
}


def power_facts(at: At, node: Expr) -> Facts:
    exponent = number(at, at.below_at(node, 1))
    return {"exponent": exponent, "method": METHODS[exponent], **names(at, node, x=(0,))}


of_nodes(power.power, holds=lambda at, node: number(at, at.below_at(node, 1)) in (2, 3, 4, -1, 0.5))(power_facts)
of_nodes(power.type, holds=lambda at, node: at.below_at(node, 0).type is not node.type)(
    lambda at, node: {**power_facts(at, node), **typed(at, node, 0)}
)


def half(at: At, node: Expr) -> bool:
    """Return whether the exponent of a power is ½."""
    return bool(number(at, at.below_at(node, 1)) == 0.5)


of_nodes(power.domain, holds=half)(
    lambda at, node: {**names(at, node, x=(0,)), "known": at.below_at(node, 0).operation.range}
)
of_nodes(power.minus_zero, holds=half)(lambda at, node: names(at, node, x=(0,)))
halves = strength_reduction.DivisionByPowerOfTwo
of_nodes(halves.halving)(
    lambda at, node: {
        "divisor": number(at, at.below_at(node, 1)),
        "factor": 1.0 / number(at, at.below_at(node, 1)),
    }
)
of_nodes(halves.type, holds=lambda at, node: at.below_at(node, 0).type is not node.type)(
    lambda at, node: {**typed(at, node, 0), "divisor": number(at, at.below_at(node, 1))}
)
