"""Powers and quotients that a cheaper operation gives, to the same digits."""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

import math

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.ops.elementwise.arithmetic import Divide, Power
from explorer.ops.elementwise.unary import Sqrt, reciprocal, sqrt, square
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import CONSTANTS, constant, is_known_nonnegative, never_minus_zero
from explorer.plan.rewrite.rule import Answer, Applied, Declined, Rule


class PowerByProducts(Rule):
    """x², x³ and x⁴ are products, x⁻¹ is a reciprocal and x to the power ½ a root: no logarithm is taken."""

    roots = (Power,)
    producers = CONSTANTS

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        x, power = graph.operands(node)
        exponent = constant(power, graph)
        if exponent not in (2, 3, 4, -1, 0.5) or node.dtype.kind not in ("fiu" if exponent in (2, 3, 4) else "f"):
            return None
        if x.type is not node.type:
            facts = {"x": x, "given": repr(x.type), "wanted": repr(node.type)}
            return Declined("type", "{x} is {given}, the result is {wanted}", facts)
        if exponent == 0.5 and not is_known_nonnegative(x):
            reason = "{x} is not known to be ≥ 0: the power ½ of −∞ is ∞, its root NaN"
            return Declined("domain", reason, {"x": x, "known": x.operation.range})
        if exponent == 0.5 and not never_minus_zero(x) and isinstance(x.operation, Sqrt):
            reason = "{x} may hold −0.0, whose power ½ is 0.0 and whose root is −0.0"
            return Declined("minus_zero", reason, {"x": x})
        if exponent == 2:
            made = square(x)
        elif exponent == 3:
            made = square(x) * x
        elif exponent == 4:
            made = square(square(x))
        else:
            made = sqrt(x) if exponent == 0.5 else reciprocal(x)
        return Applied(
            made, "the power {exponent} of {x} without a general power", {"exponent": exponent, "x": x}, "power"
        )


class DivisionByPowerOfTwo(Rule):
    """x / 2ⁿ is x · 2⁻ⁿ, to the last bit."""

    roots = (Divide,)
    producers = CONSTANTS

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        x, divisor = graph.operands(node)
        number = constant(divisor, graph)
        if not isinstance(number, (int, float)) or node.dtype.kind != "f" or not _inverts_exactly(number, node):
            return None
        if x.type is not node.type:
            facts = {"x": x, "given": repr(x.type), "wanted": repr(node.type)}
            return Declined("type", "{x} is {given}, the result is {wanted}", facts)
        factor = 1.0 / number
        facts = {"divisor": number, "factor": factor}
        return Applied(x * factor, "{divisor} is a power of two: times {factor} is the same number", facts, "halving")


def _inverts_exactly(number: float, node: Expr) -> bool:
    """Whether 1 / number is a number of the node's dtype with all its digits: a power of two far from the ends."""
    limits = np.finfo(node.dtype)
    if not math.isfinite(number) or not float(limits.tiny) <= abs(number) <= 1 / float(limits.tiny):
        return False
    return abs(math.frexp(number)[0]) == 0.5
