"""Strength reduction: powers and quotients computed by a cheaper operation, to the same digits.

The rules keep the type and the special values of the replaced operation; if this is impossible, they decline.
"""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

import math

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.ops.elementwise.arithmetic import Divide, Power
from explorer.ops.elementwise.unary import Sqrt, reciprocal, sqrt, square
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import CONSTANTS, constant, difference, is_known_nonnegative, never_minus_zero
from explorer.plan.rewrite.rule import Answer, Reason, Rule

_METHODS: dict[complex, str] = {
    2: "by one multiplication",
    3: "by two multiplications",
    4: "by two multiplications",
    0.5: "as a square root",
    -1: "as a reciprocal",
}
"""exponent → the method that replaces np.power"""


class PowerByProducts(Rule):
    """x², x³ and x⁴ are products, x⁻¹ is a reciprocal and x to the power ½ is a square root, without a logarithm.

    Each product is rounded, so x³ and x⁴ may differ from np.power in the last digit. Higher powers are kept, because
    they would round more often.
    """

    numerics = "rounding"
    roots = (Power,)
    producers = CONSTANTS

    power = Reason(
        "power",
        "`{x}` to the power {exponent} is computed {method}, because np.power takes many times longer.",
        meaning="x² · x is rounded twice and np.power once, so x³ and x⁴ may differ from np.power in the last digit.",
    )
    type = Reason(
        "type",
        "`{x}` to the power {exponent} is computed by np.power, not {method}, because `{x}` is {given}, but the result "
        "is {wanted}.",
        meaning="A rule never changes the shape or dtype of a result.",
        change="Convert the operand first: x.astype(…) to another dtype, ex.broadcast_to(x, shape) to another shape.",
    )
    domain = Reason(
        "domain",
        "`{x}` to the power ½ is computed by np.power, not as a square root, because `{x}` may contain −∞, for which "
        "the power is ∞ but the square root is NaN.",
        meaning="The operation that produces a value determines its range: results of square and abs, for example, "
        "are never negative.",
        change="Write ex.sqrt(x) for a square root.",
    )
    minus_zero = Reason(
        "minus_zero",
        "`{x}` to the power ½ is computed by np.power, not as a square root, because `{x}` may contain −0.0, for "
        "which the power is 0.0 but the square root is −0.0.",
        meaning="−0.0 and 0.0 compare equal, but 1 / 0.0 is ∞ and 1 / −0.0 is −∞.",
        change="Write ex.sqrt(x) for a square root.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        x, power = graph.operands(node)
        exponent = constant(power, graph)
        if exponent not in (2, 3, 4, -1, 0.5) or node.dtype.kind not in ("fiu" if exponent in (2, 3, 4) else "f"):
            return None
        facts = {"x": x, "exponent": exponent, "method": _METHODS[exponent]}
        if x.type is not node.type:
            return self.type.declined(**facts, **difference(x, node))
        # The power 0.5 differs from the square root only at −∞ and −0.0; for other negative numbers both are NaN.
        if exponent == 0.5 and not is_known_nonnegative(x):
            return self.domain.declined(x=x, known=x.operation.range)
        if exponent == 0.5 and not never_minus_zero(x) and isinstance(x.operation, Sqrt):
            return self.minus_zero.declined(x=x)
        if exponent == 2:
            replacement = square(x)
        elif exponent == 3:
            replacement = square(x) * x
        elif exponent == 4:
            replacement = square(square(x))
        elif exponent == 0.5:
            replacement = sqrt(x)
        else:
            replacement = reciprocal(x)
        return self.power.applied(replacement, **facts)


class DivisionByPowerOfTwo(Rule):
    """x / 2ⁿ is x · 2⁻ⁿ, with the same bits.

    Both are the same real number, rounded once. For other divisors d, 1 / d would be rounded before the multiplication.
    """

    numerics = "exact"
    roots = (Divide,)
    producers = CONSTANTS

    halving = Reason(
        "halving",
        "Division by {divisor} is computed as multiplication by {factor}, because {divisor} is a power of two, so "
        "both give the same bits, and multiplication is faster.",
        meaning="x / 4 is exactly x · 0.25. x / 3 and x · 0.333… differ in the last digit, so x / 3 stays a division.",
    )
    type = Reason(
        "type",
        "The division of `{x}` by {divisor} is computed as written, not as a multiplication, because `{x}` is {given}, "
        "but the result is {wanted}.",
        meaning="A float divided by a power of two is multiplied instead, which gives the same bits and is faster. A "
        "rule never changes the shape or dtype of a result.",
        change="Convert the operand first: x.astype(…) to another dtype, ex.broadcast_to(x, shape) to another shape.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        x, divisor = graph.operands(node)
        number = constant(divisor, graph)
        if not isinstance(number, (int, float)) or node.dtype.kind != "f" or not _inverts_exactly(number, node):
            return None
        if x.type is not node.type:
            return self.type.declined(x=x, divisor=number, **difference(x, node))
        factor = 1.0 / number
        facts = {"divisor": number, "factor": factor}
        return self.halving.applied(x * factor, **facts)


def _inverts_exactly(number: float, node: Expr) -> bool:
    """Return whether 1 / number is exact in the node's dtype: powers of two far from the limits of the range."""
    limits = np.finfo(node.dtype)
    if not math.isfinite(number) or not float(limits.tiny) <= abs(number) <= 1 / float(limits.tiny):
        return False
    return abs(math.frexp(number)[0]) == 0.5
