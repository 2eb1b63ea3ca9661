"""Checks of rules that keep formulas from overflowing, and of rules about powers that cancel."""

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
from explorer.plan.passes.simplify import Simplify, _saved_us
from explorer.plan.rewrite.rules import (
    device_copies,
    operations_under_policies,
    stability,
)
from tests.laws.claims.decisions import At, Claim, has_value, of_decision, of_nodes, shape_text, sizes_text
from tests.laws.claims.nodes import Expr, kind, names, number


def reduction(at: At, node: Expr) -> Expr:
    """Return the sum that a value is a view of."""
    while isinstance(node.operation, (BroadcastTo, Reshape)):
        node = at.below_at(node, 0)
    return node


def is_sum_of(at: At, node: Expr) -> bool:
    """Return whether the divisor is the sum of the powers."""
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
        **next(
            {"other": at.below_at(node, place), "given": str(at.below_at(node, place, 0).dtype)}
            for place in (0, 1)
            if at.below_at(node, place, 0).dtype != node.dtype
        ),
    }
)
of_nodes(quotient.other_sum, holds=lambda at, node: kind(reduction(at, at.below_at(node, 1))) == "sum")(
    lambda at, node: {**names(at, node, powers=(0,), divisor=(1,)), "total": reduction(at, at.below_at(node, 1))}
)


@of_nodes(quotient.other_shape)
def other_shape(at: At, node: Expr) -> Facts:
    powers, divisor = at.operands(node)
    divisor = at.below_at(divisor, 0) if kind(divisor) == "broadcast_to" else divisor
    total = reduction(at, divisor)
    wanted = np.empty(powers.shape).sum(axis=total.operation.axes, keepdims=True).shape
    assert at.value(at.below_at(total, 0)).tolist() == at.value(powers).tolist()
    assert divisor.shape != wanted
    return {"powers": powers, "divisor": divisor, "given": shape_text(divisor), "wanted": sizes_text(wanted)}


def power_beside_one(at: At, added: Expr) -> Expr:
    """Return exp(x) if the node is 1 + exp(x)."""
    if isinstance(added.operation, Exp):
        return added
    return next(
        power
        for power, one in itertools.permutations(at.operands(added), 2)
        if isinstance(power.operation, Exp) and number(at, one) == 1
    )


def divides_one(at: At, node: Expr) -> bool:
    return isinstance(node.operation, Reciprocal) or number(at, at.below_at(node, 0)) == 1


def is_share(at: At, node: Expr) -> bool:
    """Return whether a quotient divides a power by the sum of itself and another power, or 1."""
    powers, total = at.operands(node)
    return kind(powers) == "exp" and kind(total) == "add"


of_nodes(quotient.reciprocal, holds=divides_one)(lambda at, node: {"powers": at.operands(node)[-1]})


def divides_itself(at: At, node: Expr) -> bool:
    """Return whether a quotient divides a power by the sum of itself and 1."""
    power, divided = power_beside_one(at, at.operands(node)[-1]), at.operands(node)[0]
    return divided is power or (kind(divided) == "exp" and at.below_at(divided, 0) is at.below_at(power, 0))


one_plus = stability.QuotientOfOnePlusExp
of_nodes(one_plus.negative, holds=lambda at, node: not divides_itself(at, node))(
    lambda at, node: {"powers": power_beside_one(at, at.operands(node)[-1])}
)


of_nodes(one_plus.positive, holds=is_share)(lambda at, node: {"powers": power_beside_one(at, at.below_at(node, 1))})


@of_nodes(one_plus.share, holds=is_share)
def share(at: At, node: Expr) -> Facts:
    powers, total = at.operands(node)
    own, other = at.operands(total)
    if own is not powers and (kind(own) != "exp" or at.below_at(own, 0) is not at.below_at(powers, 0)):
        own, other = other, own
    return {"powers": own, "other": other}


of_nodes(stability.LogOfSoftmax.log_softmax)(
    lambda at, node: {"outer": node, **names(at, node, inner=(0,)), "axes": list(at.below_at(node, 0).operation.axes)}
)
of_nodes(stability.LogOfSigmoid.log_sigmoid, holds=lambda at, node: kind(at.below_at(node, 0)) == "sigmoid")(
    lambda at, node: names(at, node, inner=(0,))
)
of_nodes(
    stability.LogOfSigmoid.complement, holds=lambda at, node: kind(at.below_at(node, 0)) in ("subtract", "negative")
)(lambda at, node: names(at, node, inner=(0, -1)))


def powers_below(at: At, node: Expr, *kinds: str) -> Expr:
    """Return the first value of some kinds of operations below a node, along first operands that vary."""
    pending = at.operands(node)
    while pending:
        value = pending.pop(0)
        if kind(value) in kinds:
            return value
        pending += at.operands(value)
    raise AssertionError(f"no {kinds} below {node!r}")


@of_nodes(stability.LogSumExponentials.logsumexp)
def logsumexp(at: At, node: Expr) -> Facts:
    total = powers_below(at, node, "sum", "mean")
    assert total.operation.axes
    powers_below(at, total, "exp")
    return {"powers": at.below_at(total, 0)}


of_nodes(stability.SoftmaxGradientOfNll.fused, holds=lambda at, node: at.below_at(node, 0, 2) is at.below_at(node, 1))(
    lambda at, node: {"outer": node, **names(at, node, inner=(0,), s=(1,))}
)
of_nodes(stability.LogOfOneMinusExp.log1mexp)(lambda at, node: {"powers": powers_below(at, node, "exp")})
of_nodes(stability.LogOfChosen.chosen, holds=lambda at, node: powers_below(at, node, "one_hot") is not node)(
    lambda at, node: {"powers": powers_below(at, node, "softmax")}
)


@of_nodes(stability.LogOfSum.logaddexp)
def logaddexp(at: At, node: Expr) -> Facts:
    y = at.below_at(node, 0)
    is_cosh = "cosh" in (kind(y), *map(kind, at.operands(y)))
    return {"y": y, "form": "a multiple of exp(x) + exp(−x)" if is_cosh else "a sum of exponentials"}


@of_nodes(stability.LogOfSum.weights, holds=lambda at, node: kind(at.below_at(node, 0)) == "sum")
def unknown_weights(at: At, node: Expr) -> Facts:
    a, b = at.operands(at.below_at(node, 0, 0))
    powers, weights = (a, b) if kind(a) in ("exp", "softmax", "sigmoid", "cosh") else (b, a)
    return {**names(at, node, y=(0,)), "powers": powers, "weights": weights}


of_nodes(stability.LogOfPart.part)(
    lambda at, node: {
        **names(at, node, part=(0,)),
        "powers": powers_below(at, node, "exp", "softmax", "sigmoid", "cosh"),
        "fault": fault(powers_below(at, node, "exp", "softmax", "sigmoid", "cosh")),
    }
)


def fault(powers: Expr) -> str:
    return {"softmax": "is rounded to 0", "sigmoid": "is rounded to 0"}.get(kind(powers), "overflows to ∞")


@of_nodes(stability.OtherLog.natural)
def natural(at: At, node: Expr) -> Facts:
    factor = round(1 / np.log({"log10": 10, "log2": 2}[kind(node)]), 6)
    return {
        "outer": node,
        **names(at, node, powers=(0,)),
        "factor": float(factor),
        "fault": fault(at.below_at(node, 0)),
    }


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
    """Check that an operation of the rule's replacement has no kernel on the device."""
    (node,) = claim.subjects
    (rule,) = [rule for rule in ex.Rule.rules if type(rule).__name__ == claim.choice.rule]
    answer: Any = rule.match(node, PlanGraph([node]))
    fresh = [each for each in _reached(answer.new) if each.uid > node.uid]
    missing = next(each for each in fresh if not ex.core.ir.expr.runs_on(each.operation, each.type.device))
    return {"operation": kind(missing), "device": missing.type.device.name, "node": node.operation.label}


def _reached(node: Expr) -> list[Expr]:
    from explorer.core.ir.traversal import reachable

    return reachable([node])


@of_decision(Simplify.differentiated)
def differentiated(claim: Claim) -> Facts:
    """Check that the subjects are gradients that ex.grad recorded from the rule's result."""
    notes = {node.scope.type for node in claim.subjects if node.scope is not None}
    (note,) = notes
    rule, written = note.split("\n")
    assert rule in [type(each).__name__ for each in ex.Rule.rules]
    return {"rule": rule, "written": written}


@of_decision(Simplify.changes_rounding)
def changes_rounding(claim: Claim) -> Facts:
    """Check that a reassociating rule would apply, and that the plan's numerics are safe."""
    node, graph = claim.subjects[0], claim.planned.graph
    (rule,) = [rule for rule in ex.Rule.rules if type(rule).__name__ == claim.choice.rule]
    assert graph.numerics == "safe"
    assert node.dtype.kind in "fc"
    answer: Any = rule.match(node, PlanGraph([*claim.planned.graph.recorded_roots]))
    fresh = [each for each in _reached(answer.new) if each.uid not in claim.before.live]
    saved = _saved_us(node, fresh, claim.planned.graph)
    formula = str(type(rule).__doc__).split(".\n")[0].removesuffix(".")
    return {"node": node.operation.label, "rule": rule.name, "saved_us": saved, "formula": formula}
