"""Pairs that undo each other, where what lies between them is provable."""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import Operation
from explorer.ops.elementwise.trigonometric_and_logs import Arcsinh, Arctan, Arctanh, Sinh
from explorer.ops.elementwise.unary import Exp, Expm1, Log, Log1p, Sqrt, Square, Tan, Tanh, absolute
from explorer.ops.manipulation.reshape import Cast, Reshape, Transpose
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import is_known_nonnegative, is_known_positive, is_real, keeps_digits, producer
from explorer.plan.rewrite.rule import Answer, Applied, Declined, Rule

_INVERSES: dict[tuple[type[Operation], type[Operation]], str] = {
    (Log1p, Expm1): "",
    (Arcsinh, Sinh): "",
    (Sinh, Arcsinh): "",
    (Arctanh, Tanh): "",
    (Tan, Arctan): "",
    (Expm1, Log1p): "≥ 0",
}
"""a function, what it undoes, and for which numbers alone: "" for all of them"""


class LogOfExp(Rule):
    """log(exp(x)) is x."""

    roots = (Log,)
    producers = (Exp,)
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        if producer(y, Exp) is None:
            return None
        (x,) = graph.operands(y)
        if x.type is not node.type or not is_real(node):
            return Declined("dtype", "{x} is {given}, the result is {wanted}", _types(x, node))
        return Applied(
            x, "{outer} undoes {inner}: exp maps every number into log's domain", {"outer": node, "inner": y}, "log_exp"
        )


class ExpOfLog(Rule):
    """exp(log(x)) is x, where x is known to be positive."""

    roots = (Exp,)
    producers = (Log,)
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        if producer(y, Log) is None:
            return None
        (x,) = graph.operands(y)
        if x.type is not node.type:
            return Declined("dtype", "{x} is {given}, the result is {wanted}", _types(x, node))
        if not is_known_positive(x):
            return Declined(
                "domain",
                "{x} is not known to be positive, and log of a negative number is NaN",
                {"x": x, "known": x.operation.range},
            )
        return Applied(x, "{outer} undoes {inner}, and {x} is positive", {"outer": node, "inner": y, "x": x}, "exp_log")


class UndoneByInverse(Rule):
    """g(f(x)) is x for a function and its inverse: log1p and expm1, the hyperbolic ones and theirs, tan and arctan."""

    roots = tuple(dict.fromkeys([outer for outer, _ in _INVERSES]))
    producers = tuple(dict.fromkeys([inner for _, inner in _INVERSES]))

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        needed = _INVERSES.get((type(node.operation), type(y.operation)))
        if needed is None:
            return None
        (x,) = graph.operands(y)
        if x.type is not node.type or not is_real(node):
            return Declined("dtype", "{x} is {given}, the result is {wanted}", _types(x, node))
        facts = {"outer": node, "inner": y, "x": x}
        if needed and not is_known_nonnegative(x):
            reason = "{x} is not known to be {domain}, and {inner} is NaN below −1"
            return Declined("domain", reason, {**facts, "domain": needed})
        return Applied(x, "{outer} undoes {inner}", facts, "inverse")


class SqrtOfSquare(Rule):
    """√(x²) is |x|, also where x² overflows."""

    roots = (Sqrt,)
    producers = (Square,)
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        if producer(y, Square) is None:
            return None
        (x,) = graph.operands(y)
        if x.dtype.kind == "c" or x.type is not node.type:
            return Declined("dtype", "{x} is {given}, the result is {wanted}", _types(x, node))
        if is_known_nonnegative(x):
            return Applied(
                x, "{outer} undoes {inner}, and {x} is not negative", {"outer": node, "inner": y, "x": x}, "sqrt_square"
            )
        return Applied(absolute(x), "√(x²) is |x|, also where {inner} overflows", {"inner": y}, "sqrt_square_absolute")


class SquareOfSqrt(Rule):
    """(√x)² is x, where x is known not to be negative."""

    roots = (Square,)
    producers = (Sqrt,)
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        if producer(y, Sqrt) is None:
            return None
        (x,) = graph.operands(y)
        if x.type is not node.type:
            return Declined("dtype", "{x} is {given}, the result is {wanted}", _types(x, node))
        if not is_known_nonnegative(x):
            return Declined(
                "domain",
                "{x} is not known to be ≥ 0, and √ of a negative number is NaN",
                {"x": x, "known": x.operation.range},
            )
        return Applied(
            x, "{outer} undoes {inner}, and {x} is not negative", {"outer": node, "inner": y, "x": x}, "square_sqrt"
        )


class TransposeOfTranspose(Rule):
    """Two transpositions are one, or none."""

    roots = (Transpose,)
    producers = (Transpose,)
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        inner, outer = producer(y, Transpose), node.operation
        if inner is None or not isinstance(outer, Transpose):
            return None
        (x,) = graph.operands(y)
        axes = tuple([inner.axes[axis] for axis in outer.axes])
        if axes == tuple(range(len(axes))):
            return Applied(x, "{outer} undoes {inner}", {"outer": node, "inner": y}, "transpose_pair")
        return Applied(
            Transpose(axes)(x),
            "{outer} of {inner} is one permutation of the axes",
            {"outer": node, "inner": y},
            "transposes",
        )


class ReshapeOfReshape(Rule):
    """Of two reshapes only the last matters."""

    roots = (Reshape,)
    producers = (Reshape,)
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        if producer(y, Reshape) is None:
            return None
        (x,) = graph.operands(y)
        if x.shape == node.shape:
            return Applied(x, "{outer} undoes {inner}", {"outer": node, "inner": y}, "reshape_pair")
        return Applied(
            Reshape(node.shape)(x),
            "of {inner} and {outer} only the last matters",
            {"outer": node, "inner": y},
            "reshapes",
        )


class WideningRoundTrip(Rule):
    """A conversion to a wider dtype and back is nothing."""

    roots = (Cast,)
    producers = (Cast,)
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        if producer(y, Cast) is None:
            return None
        (x,) = graph.operands(y)
        if x.dtype != node.dtype:
            return None
        if not keeps_digits(x.dtype, y.dtype):
            return Declined(
                "lossy",
                "{inner} loses digits: {given} to {wanted}",
                {"inner": y, "given": str(x.dtype), "wanted": str(y.dtype)},
            )
        return Applied(x, "{inner} loses nothing and {outer} takes it back", {"outer": node, "inner": y}, "cast_pair")


def _types(x: Expr, node: Expr) -> dict[str, object]:
    return {"x": x, "given": repr(x.type), "wanted": repr(node.type)}
