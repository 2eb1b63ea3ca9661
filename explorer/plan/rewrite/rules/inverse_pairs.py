"""Pairs of operations in which the outer one inverts the inner one.

In exact arithmetic f⁻¹(f(x)) is x wherever f is defined. In floating point, some digits are lost, or all of them if f
overflows (log(exp(1000)) is ∞). Removing both operations therefore makes values more accurate. The rules must prove
that f is defined at x: for a negative x, exp(log(x)) is NaN, and removing the pair would hide this. Signs are derived
only from structure (matchers.py), because no plan depends on values.
"""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

from explorer.core.ir.expr import Expr, Operation
from explorer.ops.elementwise.arithmetic import Multiply
from explorer.ops.elementwise.trigonometric_and_logs import Arcsinh, Arctanh, Sinh
from explorer.ops.elementwise.unary import Exp, Expm1, Log, Log1p, Sqrt, Square, Tanh, absolute
from explorer.ops.manipulation.reshape import Cast, Reshape, Transpose
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import (
    difference,
    is_known_nonnegative,
    is_known_positive,
    is_real,
    keeps_digits,
    never_minus_zero,
    producer,
)
from explorer.plan.rewrite.rule import Answer, Reason, Rule

_INVERSES: dict[tuple[type[Operation], type[Operation]], str] = {
    (Log1p, Expm1): "",
    (Arcsinh, Sinh): "",
    (Sinh, Arcsinh): "",
    (Arctanh, Tanh): "",
    (Expm1, Log1p): "≥ 0",
}
"""(function, function that it inverts) → condition on the operand for which this is true; "" for all numbers"""


class InversePair(Rule, abstract=True):
    """Pair of operations in which the outer one inverts the inner one."""

    numerics = "rounding"
    undone = Reason(
        "inverse",
        "`{outer}` and `{inner}` are both removed and `{x}` is used directly, because in exact arithmetic, `{outer}` "
        "undoes `{inner}` for all numbers that `{x}` can contain.",
        meaning="In exact arithmetic, an operation applied to the result of its inverse gives back the original "
        "number. In floating point, the operations as written may round or overflow; the original number does not.",
        change='ex.EvalPlan(without=["simplify"]) computes both.',
    )
    dtype = Reason(
        "dtype",
        "`{outer}` of `{inner}` is computed as written, not replaced by `{x}`, because `{x}` is {given}, but the "
        "result is {wanted}.",
        meaning="A rule never changes the shape or dtype of a result. log(exp(x)) of an integer array is a float "
        "array, so it cannot be replaced by x itself.",
        change="Convert the operand to the dtype of the result first: x.astype(...).",
    )
    complex = Reason(
        "complex",
        "`{outer}` of `{inner}` is computed as written, because `{x}` is complex, and `{outer}` does not undo "
        "`{inner}` for all complex numbers.",
        meaning="For example, exp has the same value at 0 and at 2πi, so its log is 0 for both, and the square root of "
        "(−i)² is i.",
        change="If the result must be the operand itself, write the operand instead of the two operations.",
    )
    domain = Reason(
        "domain",
        "`{outer}` of `{inner}` is computed as written, because `{outer}` undoes `{inner}` only for numbers {domain}, "
        "and `{x}` may contain other numbers.",
        meaning="A plan knows no values, but it knows the range of some operations: results of exp are positive, and "
        "results of square and abs are never negative.",
        change="If all numbers are in this range, write the operand itself instead of the two operations.",
    )


class LogOfExp(InversePair):
    """log(exp(x)) is x."""

    numerics = "rounding"
    roots = (Log,)
    producers = (Exp,)
    concrete = True

    log_exp = Reason(
        "log_exp",
        "`{outer}` and `{inner}` are both removed and `{x}` is used directly, because log(exp(x)) = x for every real "
        "x.",
        meaning="The result is also more accurate: exp(x) overflows for x above 709 (88 in float32), and log(∞) is ∞.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        if producer(y, Exp) is None:
            return None
        (x,) = graph.operands(y)
        if x.type is not node.type:
            return self.dtype.declined(**_types(x, node, y))
        if not is_real(node):
            return self.complex.declined(outer=node, inner=y, x=x)
        return self.log_exp.applied(x, outer=node, inner=y, x=x)


class ExpOfLog(InversePair):
    """exp(log(x)) is x if x is known to be positive."""

    numerics = "rounding"
    roots = (Exp,)
    producers = (Log,)
    concrete = True

    exp_log = Reason(
        "exp_log",
        "`{outer}` and `{inner}` are both removed and `{x}` is used directly, because exp(log(x)) is x, except for "
        "rounding, for every x ≥ 0, and `{x}` is never negative.",
        meaning="The operation that produces a value determines its range: results of exp, for example, are never "
        "negative.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        if producer(y, Log) is None:
            return None
        (x,) = graph.operands(y)
        if x.type is not node.type:
            return self.dtype.declined(**_types(x, node, y))
        if not is_known_positive(x):
            return self.domain.declined(x=x, known=x.operation.range, outer=node, inner=y, domain="> 0")
        return self.exp_log.applied(x, outer=node, inner=y, x=x)


class UndoneByInverse(InversePair):
    """g(f(x)) is x if g is the inverse of f, such as log1p of expm1, or arcsinh of sinh."""

    numerics = "rounding"
    roots = tuple(dict.fromkeys([outer for outer, _ in _INVERSES]))
    producers = tuple(dict.fromkeys([inner for _, inner in _INVERSES]))

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        domain = _INVERSES.get((type(node.operation), type(y.operation)))
        if domain is None:
            return None
        (x,) = graph.operands(y)
        if x.type is not node.type:
            return self.dtype.declined(**_types(x, node, y))
        facts = {"outer": node, "inner": y, "x": x}
        if not is_real(node):
            return self.complex.declined(**facts)
        if domain and not is_known_nonnegative(x):
            return self.domain.declined(**facts, domain=domain)
        return self.undone.applied(x, **facts)


class SqrtOfSquare(InversePair):
    """√(x²) and √(x · x) are |x|, even if x² overflows."""

    numerics = "rounding"
    roots = (Sqrt,)
    producers = (Square, Multiply)
    concrete = True

    sqrt_square = Reason(
        "sqrt_square",
        "`{outer}` and `{inner}` are both removed and `{x}` is used directly, because √(x²) = x for every x ≥ 0, and "
        "`{x}` is never negative.",
        meaning="The operation that produces a value determines its range: results of exp, for example, are never "
        "negative. x² may overflow even if x does not.",
    )
    absolute = Reason(
        "sqrt_square_absolute",
        "The square root of `{inner}` is computed as |x|, where x is the operand of `{inner}`, because √(x²) = |x|, "
        "and |x| is correct even if x² overflows to ∞.",
        meaning="In float32, x² overflows for x above 1.8e19, and √∞ is ∞.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        if producer(y, Square) is None and producer(y, Multiply) is None:
            return None
        x, *others = graph.operands(y)
        if any(other is not x for other in others):
            return None
        if x.type is not node.type:
            return self.dtype.declined(**_types(x, node, y))
        if x.dtype.kind == "c":
            return self.complex.declined(outer=node, inner=y, x=x)
        if is_known_nonnegative(x) and never_minus_zero(x):
            return self.sqrt_square.applied(x, outer=node, inner=y, x=x)
        return self.absolute.applied(absolute(x), inner=y)


class SquareOfSqrt(InversePair):
    """(√x)² is x if x is known to be nonnegative."""

    numerics = "rounding"
    roots = (Square,)
    producers = (Sqrt,)
    concrete = True

    minus_zero = Reason(
        "minus_zero",
        "`{outer}` of `{inner}` is computed as written, not replaced by `{x}`, the operand of `{inner}`, because "
        "`{x}` may contain −0.0, for which (√x)² is 0.0.",
        meaning="Except for rounding, (√x)² is x for every x ≥ 0, but √(−0.0) is −0.0, and its square is 0.0. −0.0 and "
        "0.0 compare equal, but 1 / 0.0 is ∞ and 1 / −0.0 is −∞.",
        change="If the sign of zeros does not matter, write the operand itself instead of the two operations.",
    )
    square_sqrt = Reason(
        "square_sqrt",
        "`{outer}` and `{inner}` are both removed and `{x}` is used directly, because (√x)² = x for every x ≥ 0, and "
        "`{x}` is never negative.",
        meaning="The operation that produces a value determines its range: results of square and abs, for example, "
        "are never negative.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        if producer(y, Sqrt) is None:
            return None
        (x,) = graph.operands(y)
        if x.type is not node.type:
            return self.dtype.declined(**_types(x, node, y))
        if not is_known_nonnegative(x):
            return self.domain.declined(x=x, known=x.operation.range, outer=node, inner=y, domain="≥ 0")
        if not never_minus_zero(x):
            return self.minus_zero.declined(outer=node, inner=y, x=x)
        return self.square_sqrt.applied(x, outer=node, inner=y, x=x)


class TransposeOfTranspose(Rule):
    """Two successive transposes are one transpose, or cancel each other."""

    numerics = "exact"
    roots = (Transpose,)
    producers = (Transpose,)
    concrete = True

    undone = Reason(
        "transpose_pair",
        "`{outer}` and `{inner}` are both removed, because `{outer}` moves the axes back to where they were before "
        "`{inner}`.",
        meaning="x.T.T is x.",
    )
    joined = Reason(
        "transposes",
        "`{inner}` and the following `{outer}` become one transpose, because moving axes twice is the same as moving "
        "them once to their final positions.",
        meaning="x.transpose(a).transpose(b) is x.transpose([a[axis] for axis in b]).",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        inner, outer = producer(y, Transpose), node.operation
        if inner is None or not isinstance(outer, Transpose):
            return None
        (x,) = graph.operands(y)
        axes = tuple([inner.axes[axis] for axis in outer.axes])
        if axes == tuple(range(len(axes))):
            return self.undone.applied(x, outer=node, inner=y)
        return self.joined.applied(Transpose(axes)(x), outer=node, inner=y)


class ReshapeOfReshape(Rule):
    """Of two successive reshapes only the last one has an effect.

    Reshapes keep the order of the elements, so the intermediate shape does not matter.
    """

    numerics = "exact"
    roots = (Reshape,)
    producers = (Reshape,)
    concrete = True

    undone = Reason(
        "reshape_pair",
        "`{outer}` and `{inner}` are both removed, because `{outer}` restores the shape that the array had before "
        "`{inner}`.",
        meaning="x.reshape(a).reshape(x.shape) is x.",
    )
    joined = Reason(
        "reshapes",
        "`{inner}` is removed, because `{outer}` directly after it sets the shape again.",
        meaning="x.reshape(a).reshape(b) is x.reshape(b).",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        if producer(y, Reshape) is None:
            return None
        (x,) = graph.operands(y)
        if x.shape == node.shape:
            return self.undone.applied(x, outer=node, inner=y)
        return self.joined.applied(Reshape(node.shape)(x), outer=node, inner=y)


class WideningRoundTrip(Rule):
    """A conversion to a wider dtype and back has no effect."""

    numerics = "exact"
    roots = (Cast,)
    producers = (Cast,)
    concrete = True

    undone = Reason(
        "cast_pair",
        "`{inner}` and the following `{outer}` are both removed. `{inner}` converts to a wider dtype, which "
        "loses no digits, and `{outer}` converts back to the original dtype.",
        meaning="x.astype(float64).astype(float32) is x if x is float32.",
    )
    lossy = Reason(
        "lossy",
        "The conversion `{inner}` to {wanted} is kept, even though its result is converted back to {given}, because "
        "{wanted} has fewer digits than {given}, so the conversions round the numbers.",
        meaning="x.astype(float32).astype(float64) rounds each number of x to float32.",
        change="Remove the conversions if you want no rounding.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        if producer(y, Cast) is None:
            return None
        (x,) = graph.operands(y)
        if x.dtype != node.dtype:
            return None
        if not keeps_digits(x.dtype, y.dtype):
            return self.lossy.declined(inner=y, given=str(x.dtype), wanted=str(y.dtype))
        return self.undone.applied(x, outer=node, inner=y)


def _types(x: Expr, node: Expr, y: Expr) -> dict[str, object]:
    """Return the facts about a pair of operations that is kept because of its types."""
    return {"x": x, **difference(x, node), "outer": node, "inner": y}
