"""Powers that overflow, or are rounded to 0, and cancel: computed with the exponents that are left, in any form.

stability.py knows the formulas that people write. Gradients of such formulas, and formulas in other words, are
quotients and sums of powers in countless shapes; these rules take a value apart into terms number · mantissa · eˣ
(algebra/scaled_sums.py), in which exponents are subtracted before any power is computed. They apply only where an
operand may overflow and the result cannot: elsewhere the program's own form is as good, and shorter.
"""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

import math

from explorer.core.ir.expr import Expr, next_uid
from explorer.core.types.tensor_type import Shape
from explorer.ops.base import broadcast_to, reshape
from explorer.ops.elementwise.arithmetic import Add, AddN, Divide, Multiply, Subtract, add_n
from explorer.ops.elementwise.trigonometric_and_logs import Log10
from explorer.ops.elementwise.unary import Exp, Log, Log1p, Negative, Reciprocal, SigmoidGradient, log
from explorer.ops.linalg.matmul import Matmul
from explorer.ops.manipulation.reshape import Reshape
from explorer.ops.nn.softmax import SoftmaxGradient
from explorer.ops.reduction.reduce import Sum
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.rule import Answer, Reason, Rule
from explorer.plan.rewrite.rules.algebra.axis_places import at_places, below_views
from explorer.plan.rewrite.rules.algebra.overflow_risks import SOURCES
from explorer.plan.rewrite.rules.algebra.power_propagation import CARRIERS, moved_term
from explorer.plan.rewrite.rules.algebra.scaled_sums import Scaled, Term, Terms
from explorer.plan.rewrite.rules.stability import as_node

_MOST = 4_000
"""operations up to which a value is taken apart; a plan would grow without end otherwise"""


class PowersThatCancel(Rule):
    """(n / Σ eˣ)·eˣ, eˣ / (eˣ + eʸ) and other quotients of exponentials: the exponents are subtracted instead.

    Values that this rule has recorded are left alone, or it would take its own results apart forever.
    """

    roots = (Multiply, Divide, Reciprocal, Add, AddN, Subtract, SoftmaxGradient, SigmoidGradient)
    producers = CARRIERS
    among = SOURCES

    cancelled = Reason(
        "powers_cancelled",
        "`{node}` is computed by adding and subtracting exponents, instead of multiplying and dividing exponentials "
        "(exp), because these may overflow to ∞ or be rounded to 0, although the result is an ordinary number.",
        meaning="exp(800) / exp(799) is exp(1), but exp(800) is ∞ in float64, and ∞ / ∞ is NaN.",
    )
    too_many_terms = Reason(
        "too_many_terms",
        "`{node}` is computed as written, instead of adding and subtracting exponents, because it adds up "
        "{terms:product} of exponentials (exp), for which that would take more than {most:operation}. So an overflow "
        "of exp to ∞ stays possible.",
        meaning="Exponentials divide each other, in so many ways that the safe form would be far larger.",
        change="Use ex.softmax, ex.logsumexp or ex.sigmoid, which are safe by themselves.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        values = Scaled.of_graph(graph)
        if not values.risks.may_cancel(node):
            return None
        terms = values.reduced(node)
        if terms is None or node.uid in values.replacements:
            return None
        first = next_uid()
        if self._is_mended(node, terms, values, graph):
            with values.making():
                value = as_node(values.total(terms, node), node)
            values.remember(value, terms)
        else:
            elsewhere = self._in_shape_of_sum(node, values, graph)
            if elsewhere is None and any(term.weighted for term in terms):
                elsewhere = self._taken_in(node, values, graph)
            if elsewhere is None:
                return None
            value = elsewhere
        if next_uid() - first > _MOST:  # many terms, each with exponents of its own: a plan would grow without end
            values.risks.forget(node)
            return self.too_many_terms.declined(node=node, terms=len(terms), most=_MOST)
        return self.cancelled.applied(value, node=node, terms=len(terms))

    @staticmethod
    def _is_mended(node: Expr, terms: Terms, values: Scaled, graph: PlanGraph) -> bool:
        """Whether an operand, or a divisor's reciprocal, may overflow, and the result cannot."""
        if not all(values.is_bounded(term, node.dtype) for term in terms):
            return False
        operands = [*map(values.of, graph.operands(node))]
        if isinstance(node.operation, (Divide, Reciprocal)):
            below = values.over([Term(1.0, None, {})], operands.pop())
            if below is None:
                return False
            operands.append(below)
        return any(values.shares(term) is None for operand_terms in operands for term in operand_terms)

    @staticmethod
    def _in_shape_of_sum(node: Expr, values: Scaled, graph: PlanGraph) -> Expr | None:
        """Record a product or quotient in the shape in which powers were summed, before a reshape that mixes axes.

        Terms name the axes that they stand at, and a mixed axis has no name: what divides them would not be known
        again as their sum.
        """
        if not isinstance(node.operation, (Multiply, Divide)):
            return None
        operands = graph.operands(node)
        shapes = {shape for factor in operands if factor.size == node.size for shape in _mixed_shapes(factor, graph)}
        for shape in sorted(shapes):
            with values.making():
                reshaped = node.operation(*[reshape(broadcast_to(x, node.shape), shape) for x in operands])
                first, second = map(values.of, reshaped.operands)
                terms = (
                    values.over(first, second) if isinstance(node.operation, Divide) else values.times(first, second)
                )
                if terms and all(values.is_bounded(term, node.dtype) for term in terms):
                    total = broadcast_to(values.total(terms, reshaped), shape)
                    return as_node(reshape(total, node.shape), node)
        return None

    @staticmethod
    def _taken_in(node: Expr, values: Scaled, graph: PlanGraph) -> Expr | None:
        """Record (Σ n / (eˣ + eʸ))·eʸ with eʸ taken into the sum, if y does not vary along it and no term overflows."""
        if not isinstance(node.operation, Multiply):
            return None
        operands = graph.operands(node)
        for factor, other in (operands, operands[::-1]):
            with values.making():
                total = _inside(factor, values.of(other), values)
                if total is not None:
                    return as_node(total, node)
        return None


def _mixed_shapes(value: Expr, graph: PlanGraph, depth: int = 3) -> set[Shape]:
    """Return the shapes that a value, or values that it is added or multiplied from, had before axes were mixed."""
    base = below_views(value, graph)[0]
    if isinstance(base.operation, Reshape):
        return {graph.operands(base)[0].shape}
    if not depth or not isinstance(base.operation, (Add, AddN, Subtract, Multiply, Divide, Negative)):
        return set()
    operands = [operand for operand in graph.operands(base) if operand.size == value.size]
    return {shape for operand in operands for shape in _mixed_shapes(operand, graph, depth - 1)}


def _inside(value: Expr, factor: Terms, values: Scaled, depth: int = 3) -> Expr | None:
    """Record a sum over axes, or an addition of such, times a factor taken into it; None where a term may overflow."""
    operands = values.graph.operands(value)
    if depth and isinstance(value.operation, (Add, AddN)) and all(operand.shape == value.shape for operand in operands):
        parts = [_inside(operand, factor, values, depth - 1) for operand in operands]
        return add_n(*[part for part in parts if part is not None]) if all(part is not None for part in parts) else None
    if depth and isinstance(value.operation, Multiply):
        for inner, other in (operands, operands[::-1]):
            both = values.times(factor, values.of(other))
            taken = None if both is None else _inside(inner, both, values, depth - 1)
            if taken is not None:
                return taken
    base, places = below_views(value, values.graph)
    if not isinstance(base.operation, Sum):
        return None
    axes, (x,) = base.operation.axes, values.graph.operands(base)
    kept = [axis for axis in range(x.ndim) if base.operation.keepdims or axis not in axes]
    to = {place: axis - x.ndim for place, axis in zip(places, kept, strict=True) if place}
    if not all(term.axes <= to.keys() for term in factor):
        return None
    terms = values.times(values.of(x), [moved_term(term, to) for term in factor])
    if terms is None or not all(values.is_bounded(term, x.dtype) for term in terms):
        return None
    total = Sum(axes, True)(broadcast_to(values.total(terms, x), x.shape))
    back = {axis: place for place, axis in to.items()}
    return at_places(total, tuple([back.get(axis - x.ndim, 0) for axis in range(x.ndim)]))


class LogOfPowers(Rule):
    """The log of products, quotients and positive sums of exponentials is computed from their exponents.

    A difference has no such form: log(eˣ − eʸ) loses the digits that x and y share, however it is written.
    """

    roots = (Log, Log1p, Log10)
    producers = CARRIERS
    among = SOURCES

    from_exponents = Reason(
        "log_of_powers",
        "The log of `{y}` is computed from the exponents of the exponentials (exp) in `{y}`, instead of computing "
        "these, because they may overflow to ∞ or be rounded to 0, although the log is an ordinary number.",
        meaning="log(2 · exp(800)) is log(2) + 800, but exp(800) is ∞ in float64.",
    )
    difference = Reason(
        "difference",
        "The log of `{y}` is computed as written, not from the exponents of its exponentials (exp), as the log of a "
        "sum would be, because `{y}` subtracts one number from another: both are at most 1, so that nothing can "
        "overflow, and where they are nearly equal, the difference loses digits either way.",
        meaning="0.12345678 − 0.12345677 keeps one digit of eight.",
        change="Write the difference in a form without subtraction, where there is one.",
    )
    weights = Reason(
        "weights",
        "The log of `{y}` is computed as written, not from the exponents of the exponentials (exp) in `{y}`, because "
        "`{y}` multiplies them by numbers that may be negative or 0 before adding them up.",
        meaning="log(a · exp(x) + b · exp(y)) is one logaddexp only where a and b are positive.",
        change="Use weights that are known to be positive, such as ex.exp(…).",
    )
    tensor_weights = Reason(
        "weights",
        "The log of `{y}`, a sum of w · exp(x), is computed as written, not as logsumexp(x + log w), because the "
        "weights w, `{weights}`, are not known to be positive, and log w is a number only where they are.",
        meaning="The log of Σ w · exp(x) is logsumexp(x + log w), in which no exp overflows.",
        change="Use weights that are known to be positive, such as ex.exp(…).",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        values = Scaled.of_graph(graph)
        (y,) = graph.operands(node)
        if isinstance(y.operation, Exp) and isinstance(node.operation, Log):  # a pair of inverses
            return None
        terms = values.reduced(y)
        if terms is None and isinstance(y.operation, Matmul):
            return self._of_product(y, values, graph)
        if terms is None or y.dtype != node.dtype:
            return None
        if isinstance(node.operation, Log1p):
            terms = values.plus([Term(1.0, None, {})], terms)
        if len(terms) != 1 or terms[0].weighted or not terms[0].number > 0:
            if all(values.shares(term) is not None for term in terms):
                if all(term.number > 0 for term in terms):
                    return None
                return self.difference.declined(y=y)
            return self.weights.declined(y=y)
        (term,) = terms
        if not term.exponent:
            return None
        value = values.exponents.log(term.exponent)
        if term.number != 1:
            value = value + math.log(term.number)
        if term.mantissa is not None:
            value = value + log(term.mantissa.value())
        if isinstance(node.operation, Log10):
            value = value * (1 / math.log(10))
        for zero in values.zeros(term.gone, {leaf for atom in term.exponent for leaf in values.exponents.leaves(atom)}):
            value = value + zero
        return self.from_exponents.applied(as_node(value, node), y=y)

    def _of_product(self, y: Expr, values: Scaled, graph: PlanGraph) -> Answer:
        """Decline powers that a tensor weighs: a plan does not depend on the values of tensors, so signs are
        unknown."""
        for powers, weights in (graph.operands(y), graph.operands(y)[::-1]):
            terms = values.terms(powers)
            if terms is not None and any(values.shares(term) is None for term in terms):
                return self.tensor_weights.declined(y=y, powers=powers, weights=weights)
        return None
