"""What the rules claim that keep formulas from overflowing, and those about powers that cancel."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import explorer as ex
from explorer.core.ir.policy_operations import Adjusted
from explorer.ops.elementwise.unary import Exp, Reciprocal
from explorer.ops.manipulation.reshape import BroadcastTo, Reshape
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts
from explorer.plan.passes.simplify import Simplify
from explorer.plan.rewrite.rules import (
    cancel_powers,
    device_copies,
    operations_under_policies,
    stability,
)
from tests.laws.claims.decisions import At, Claim, has_value, of_decision, of_nodes, shape_text
from tests.laws.claims.nodes import Expr, kind, names, number


def reduction(at: At, node: Expr) -> Expr:
    """The sum that a value is a view of."""
    while isinstance(node.operation, (BroadcastTo, Reshape)):
        node = at.below_at(node, 0)
    return node


def is_sum_of(at: At, node: Expr) -> bool:
    """Whether the divisor is the sum of the powers."""
    powers, divisor = at.operands(node)
    if not has_value(node):
        return True
    axes = reduction(at, divisor).operation.axes
    with np.errstate(all="ignore"):
        total = np.broadcast_to(at.value(powers).sum(axis=axes, keepdims=True), node.shape)
        return np.allclose(total, np.broadcast_to(at.value(divisor), node.shape), equal_nan=True)


quotient = stability.QuotientOfExponentials


@of_nodes(quotient.softmax, holds=is_sum_of)
def softmax(at: At, node: Expr) -> Facts:
    return {**names(at, node, powers=(0,)), "axes": list(reduction(at, at.below_at(node, 1)).operation.axes)}


def exponents_fit(at: At, node: Expr) -> bool:
    powers, divisor = at.operands(node)
    same = powers.operation.name == divisor.operation.name == "exp"
    return same and all(at.below_at(node, place, 0).dtype == node.dtype for place in (0, 1))


of_nodes(quotient.difference, holds=exponents_fit)(lambda at, node: names(at, node, powers=(0,), divisor=(1,)))
of_nodes(quotient.dtype, holds=lambda at, node: not exponents_fit(at, node))(
    lambda at, node: {
        **names(at, node, powers=(0,), divisor=(1,)),
        "wanted": str(node.dtype),
        "given": f"{at.below_at(node, 0, 0).dtype} and {at.below_at(node, 1, 0).dtype}",
    }
)
of_nodes(quotient.other_sum, holds=lambda at, node: kind(reduction(at, at.below_at(node, 1))) == "sum")(
    lambda at, node: names(at, node, powers=(0,), divisor=(1,))
)


def power_beside_one(at: At, added: Expr) -> Expr:
    """The power of 1 + exp(x)."""
    if isinstance(added.operation, Exp):
        return added
    return next(
        power
        for power, one in itertools.permutations(at.operands(added), 2)
        if isinstance(power.operation, Exp) and number(at, one) == 1
    )


def divides_one(at: At, node: Expr) -> bool:
    return isinstance(node.operation, Reciprocal) or number(at, at.below_at(node, 0)) == 1


one_plus = stability.QuotientOfOnePlusExp
for sigmoid, of_one in ((one_plus.negative, True), (one_plus.positive, False)):
    of_nodes(sigmoid, holds=lambda at, node, of_one=of_one: divides_one(at, node) is of_one)(
        lambda at, node: {"powers": power_beside_one(at, at.operands(node)[-1])}
    )
of_nodes(stability.LogOfSoftmax.log_softmax)(
    lambda at, node: {"outer": node, **names(at, node, inner=(0,)), "axes": list(at.below_at(node, 0).operation.axes)}
)
of_nodes(stability.LogOfSigmoid.log_sigmoid, holds=lambda at, node: kind(at.below_at(node, 0)) == "sigmoid")(
    lambda at, node: names(at, node, inner=(0,))
)
of_nodes(stability.LogOfSigmoid.complement, holds=lambda at, node: kind(at.below_at(node, 0)) == "subtract")(
    lambda at, node: names(at, node, inner=(0, 1))
)
of_nodes(stability.LogSumExponentials.logsumexp, holds=lambda at, node: bool(at.below_at(node, 0).operation.axes))(
    lambda at, node: names(at, node, powers=(0, 0))
)


def softplus_facts(at: At, node: Expr) -> Facts:
    powers = power_beside_one(at, at.below_at(node, 0))
    shapes = {"before": shape_text(powers), "after": shape_text(node)}
    return {"powers": powers, **({} if powers.shape == node.shape else shapes)}


for log_reason, fits in ((stability.LogOfOnePlusExp.softplus, True), (stability.LogOfOnePlusExp.broadcast, False)):
    of_nodes(
        log_reason,
        holds=lambda at, node, fits=fits: (power_beside_one(at, at.below_at(node, 0)).shape == node.shape) is fits,
    )(softplus_facts)
of_nodes(stability.NllOfSoftmax.nll)(
    lambda at, node: {**names(at, node, inner=(1,)), "axes": list(at.below_at(node, 1).operation.axes)}
)


of_nodes(device_copies.RoundTripCopy.direct)(
    lambda at, node: {**names(at, node, x=(0, 0)), "there": at.below_at(node, 0).type.device.name}
)
of_nodes(device_copies.RecreateConstantOnDevice.recreated, holds=lambda at, n: not at.below_at(n, 0).operands)(
    lambda at, node: {**names(at, node, x=(0,)), "there": node.type.device.name}
)


@of_decision(operations_under_policies.UnderPolicies.policies)
def policies(claim: Claim) -> Facts:
    (node,), (values,) = claim.subjects, claim.choice.produced
    assert isinstance(node.operation, Adjusted)
    given = ", ".join(repr(each) for each in node.operation.policies)
    return {"operation": kind(node), "policies": given, "computed_by": values.operation.label}


@of_decision(Simplify.no_kernel)
def no_kernel(claim: Claim) -> Facts:
    """What the rule would put there has an operation without a kernel on the device."""
    (node,) = claim.subjects
    (rule,) = [rule for rule in ex.Rule.rules if type(rule).__name__ == claim.choice.rule]
    answer: Any = rule.match(node, PlanGraph([node]))
    fresh = [each for each in _reached(answer.new) if each.uid > node.uid]
    missing = next(each for each in fresh if not ex.core.ir.kernel_registry.runs_on(each.operation, each.type.device))
    return {"operation": kind(missing), "device": missing.type.device.name, "node": node.operation.label}


def _reached(node: Expr) -> list[Expr]:
    from explorer.core.ir.traversal import reachable

    return reachable([node])


def exponentials(at: At, node: Expr) -> bool:
    return any(
        each.operation.name in ("exp", "sigmoid", "softmax", "logsumexp", "softplus", "tanh")
        or "softmax" in kind(each)
        or "sigmoid" in kind(each)
        for each in at.below([node]).values()
    )


def as_it_stands(at: At, node: Expr) -> PlanGraph:
    """A graph of one root, in which what was replaced until now is."""
    graph = PlanGraph([node])
    graph.replaced.update({each.uid: at.resolve(each) for each in graph.live if at.resolve(each) is not each})
    graph._changed = True
    graph.inputs = {}
    graph.refresh()
    return graph


def terms_in(at: At, node: Expr) -> int:
    """How many products of exponentials a value adds up."""
    terms = cancel_powers.Scaled(as_it_stands(at, node)).reduced(node)
    assert terms is not None
    return len(terms)


cancels = cancel_powers.PowersThatCancel
of_nodes(cancels.cancelled, holds=exponentials)(lambda at, node: {"node": node, "terms": terms_in(at, node)})
of_nodes(cancels.too_many_terms, holds=exponentials)(
    lambda at, node: {"node": node, "terms": terms_in(at, node), "most": cancel_powers._MOST}
)
logs = cancel_powers.LogOfPowers


@of_decision(logs.from_exponents)
def from_exponents(claim: Claim) -> Facts:
    (node,) = claim.subjects
    assert claim.choice.applied
    assert exponentials(claim.before, node)
    return names(claim.before, node, y=(0,))


def may_overflow(at: At, node: Expr) -> bool:
    """Whether the value of which a log is taken adds up a power that may overflow."""
    y = at.below_at(node, 0)
    values = cancel_powers.Scaled(as_it_stands(at, y))
    terms = values.reduced(y)
    assert terms is not None
    return any(values.shares(term) is None for term in terms)


of_nodes(logs.difference, holds=lambda at, node: not may_overflow(at, node))(lambda at, node: names(at, node, y=(0,)))
of_nodes(logs.weights, holds=may_overflow)(lambda at, node: names(at, node, y=(0,)))


@of_nodes(logs.tensor_weights, holds=lambda at, node: kind(at.below_at(node, 0)) == "matmul")
def tensor_weights(at: At, node: Expr) -> Facts:
    y = at.below_at(node, 0)
    a, b = at.operands(y)
    powers, weights = (a, b) if exponentials(at, ex.negative(a)) else (b, a)
    return {"y": y, "powers": powers, "weights": weights}
