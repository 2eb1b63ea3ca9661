"""Gradients of what overflows as written: no division by what may be 0, no product with an overflown power."""

# ruff: noqa: D102  # match() is documented once, by Link

from __future__ import annotations

from dataclasses import dataclass

from explorer.core.expr import Expr
from explorer.ops.arithmetic import Add, AddN, Multiply, Subtract, add_n
from explorer.ops.elementwise import Exp, Negative, Sigmoid, SigmoidGradient
from explorer.ops.loss import NllLossGradient, Softmax, SoftmaxGradient
from explorer.ops.movement import cast
from explorer.ops.reduce import Sum
from explorer.plan.graph import Graph
from explorer.plan.links.match import is_real, producer, same
from explorer.plan.links.quotient import (
    Total,
    inverts_one_plus,
    is_complement,
    is_one_minus,
    is_one_plus,
    is_value,
    numerator,
    terms,
)
from explorer.plan.links.stable import as_node
from explorer.plan.rule import Answer, Applied, Declined, Link

_TERMS = 16
"""terms of a sum, and factors of a product, that are looked at"""


class GradientOfNllOfSoftmax(Link):
    """softmax-gradient ∘ NLL-gradient is (s·Σ t − t)·g / Σ t: no division by a probability (MetaNN forgets 1 / Σ t)."""

    roots = (SoftmaxGradient,)

    def match(self, node: Expr, graph: Graph) -> Answer:
        upstream, y = graph.operands(node)
        if producer(upstream, NllLossGradient) is None or not is_real(node):
            return None
        g, truth, prediction = graph.operands(upstream)
        if not same(prediction, y, graph):
            return Declined(
                "other_output",
                "{upstream} divides by another value than the softmax {y}",
                {"upstream": upstream, "y": y},
            )
        axes = node.operation.axes  # type: ignore[attr-defined]
        truth = cast(truth, node.dtype)
        return Applied(
            as_node((y * Sum(axes, True)(truth) - truth) * (g / truth.sum()), node),
            "the gradients of softmax and NLL together are (s·Σ t − t)·g / Σ t:"
            " no division by a probability that may be 0",
            {"upstream": upstream, "softmax": y},
            "softmax_nll_gradient",
        )


class GradientOfLogOfSoftmax(Link):
    """softmax-gradient of n / s is n − s·Σ n: no division by a probability."""

    roots = (SoftmaxGradient,)

    def match(self, node: Expr, graph: Graph) -> Answer:
        upstream, y = graph.operands(node)
        if not is_real(node):
            return None
        axes = node.operation.axes  # type: ignore[attr-defined]
        divides = is_value(y, graph)
        found: list[Expr] = []
        rest: list[Expr] = []
        for term in terms(upstream, graph):
            n = numerator(term, divides, graph)
            if n is None:
                rest.append(term)
            else:
                found.append(n - y * Sum(axes, True)(n))
        if not found:
            return None
        found.extend([SoftmaxGradient(axes)(term, y) for term in rest])
        return Applied(
            as_node(_total(found), node),
            "the gradient of the log of {y} is n − s·Σ n: no division by a probability that may be 0",
            {"y": y, "other_terms": len(rest)},
            "log_softmax_gradient",
        )


class GradientOfLogOfSigmoid(Link):
    """sigmoid-gradient of n / s is n·(1 − s), of n / (1 − s) is n·s: no division, and 1 − s is the sigmoid of −x."""

    roots = (SigmoidGradient,)

    def match(self, node: Expr, graph: Graph) -> Answer:
        upstream, y = graph.operands(node)
        if upstream.shape != y.shape or not is_real(node):
            return None
        found: list[Expr] = []
        rest: list[Expr] = []
        for term in terms(upstream, graph):
            n = numerator(term, is_value(y, graph), graph)
            if n is not None:
                found.append(n * complement(y, graph))
                continue
            n = numerator(term, is_one_minus(y, graph), graph)
            if n is not None:
                found.append(n * y)
            else:
                rest.append(term)
        if not found:
            return None
        found.extend([SigmoidGradient()(term, y) for term in rest])
        return Applied(
            as_node(_total(found), node),
            "the gradient of the log of {y}, or of 1 − {y}, is n·(1 − s) or n·s: no division by what may be 0",
            {"y": y, "other_terms": len(rest)},
            "log_sigmoid_gradient",
        )


class QuotientTimesProbability(Link):
    """(n / s)·s is n for the result s of exp, a softmax or a sigmoid, which is positive until it is rounded."""

    roots = (Multiply,)
    over = (Exp, Softmax, Sigmoid)

    def match(self, node: Expr, graph: Graph) -> Answer:
        operands = graph.operands(node)
        if not is_real(node):
            return None
        for y, quotient in (operands, operands[::-1]):
            if isinstance(y.operation, (Exp, Softmax, Sigmoid)) and quotient.shape == y.shape == node.shape:
                tests = is_value(y, graph), is_complement(y, graph)
                found: list[Expr] = []
                rest: list[Expr] = []
                for term in terms(quotient, graph):
                    n = numerator(term, tests[0], graph)
                    n = numerator(term, tests[1], graph) if n is None else n
                    if n is None:
                        rest.append(term * y)
                    else:
                        found.append(n)
                if found:
                    reason = "{y} divides and multiplies: it is positive, but may be rounded to 0 or ∞"
                    facts = {"y": y, "other_terms": len(rest)}
                    return Applied(as_node(_total([*found, *rest]), node), reason, facts, "cancelled")
        return None


class GradientOfExponentials(Link):
    """(n / Σ eˣ)·eˣ is n·softmax(x), (n / (1 + eˣ))·eˣ is n·sigmoid(x): no power is computed."""

    roots = (Multiply,)
    over = (Exp,)

    def match(self, node: Expr, graph: Graph) -> Answer:
        operands = graph.operands(node)
        quotient, powers = operands if producer(operands[1], Exp) is not None else operands[::-1]
        if producer(powers, Exp) is None or powers.shape != node.shape or not is_real(node):
            return None
        (x,) = graph.operands(powers)
        totals = [Total(powers, reduction, graph) for reduction in _sums(quotient, graph)]
        one_plus, inverse = is_one_plus(powers, graph), inverts_one_plus(powers, graph)
        softmaxed = sigmoided = 0
        found: list[Expr] = []
        for term in terms(quotient, graph):
            n = numerator(term, one_plus, graph, inverts=inverse) if term.shape == node.shape else None
            if n is not None:
                found.append(n * Sigmoid()(x))
                sigmoided += 1
                continue
            for total in totals:
                n = total.numerator(term)
                if n is not None:
                    found.append(n * Softmax(total.axes)(x))
                    softmaxed += 1
                    break
            else:
                found.append(term * powers)
        if not softmaxed + sigmoided:
            return None
        return Applied(
            as_node(_total(found), node),
            "{powers} over its own sum is a softmax, over 1 + {powers} a sigmoid: {powers} itself is not computed",
            {"powers": powers, "softmax": softmaxed, "sigmoid": sigmoided, "terms": len(found)},
            "softplus_gradient" if sigmoided else "logsumexp_gradient",
        )


class SumWithComplement(Link):
    """t − t·s is t·(1 − s) for a sigmoid s: a gradient of it, or n where t is n / (1 − s), and nothing is divided."""

    roots = (Add, AddN, Subtract)
    over = (Negative, Multiply)

    def match(self, node: Expr, graph: Graph) -> Answer:
        operands = graph.operands(node)
        if len(operands) > _TERMS or not is_real(node) or any(operand.type is not node.type for operand in operands):
            return None
        if not any(_has_sigmoid(operand, graph) for operand in operands):
            return None
        negative = isinstance(node.operation, Subtract)
        products = [
            product.negated() if negative and place else product
            for place, operand in enumerate(operands)
            for product in _expanded(operand, graph)
        ]
        for place, whole in enumerate(products):
            for other, part in enumerate(products):
                s = part.without(whole, graph) if part.negative != whole.negative else None
                left = whole.times_complement(s, graph) if s is not None else None
                if left is None:
                    continue
                rest = [product.value() for i, product in enumerate(products) if i not in (place, other)]
                return Applied(
                    as_node(_total([left, *rest]), node),
                    "t and −t·s together are t·(1 − s), which is taken at once: no division by 1 − s, which may be 0",
                    {"s": s, "other_terms": len(rest)},
                    "complement",
                )
        return None


@dataclass(frozen=True)
class _Product:
    """A value as a product of factors of its own shape."""

    factors: tuple[Expr, ...]
    negative: bool

    @classmethod
    def of(cls, value: Expr, graph: Graph) -> _Product:
        factors: list[Expr] = []
        pending, negative = [value], False
        while pending:
            node = pending.pop()
            operands = graph.operands(node)
            if isinstance(node.operation, Negative):
                negative = not negative
                pending += operands
            elif isinstance(node.operation, Multiply) and len(factors) + len(pending) < _TERMS:
                pending += operands
            else:
                factors.append(node)
        return cls(tuple(factors), negative)

    def negated(self) -> _Product:
        return _Product(self.factors, not self.negative)

    def value(self) -> Expr:
        return self._signed(list(self.factors))

    def without(self, other: _Product, graph: Graph) -> Expr | None:
        """The sigmoid that the product has beside the other's factors, None where there is more or less."""
        if len(self.factors) != len(other.factors) + 1:
            return None
        left = list(self.factors)
        for factor in other.factors:
            place = next((i for i, own in enumerate(left) if same(own, factor, graph)), None)
            if place is None:
                return None
            del left[place]
        return left[0] if producer(left[0], Sigmoid) is not None else None

    def times_complement(self, s: Expr, graph: Graph) -> Expr | None:
        """The product times 1 − s: a gradient of the sigmoid where s is a factor, n where one is n / (1 − s)."""
        divides = is_one_minus(s, graph)
        for place, factor in enumerate(self.factors):
            others = [*self.factors[:place], *self.factors[place + 1 :]]
            if others and same(factor, s, graph):
                return SigmoidGradient()(self._signed(others), s)
            n = numerator(factor, divides, graph) if factor.shape == s.shape else None
            if n is not None:
                return self._signed([n, *others])
        return None

    def _signed(self, factors: list[Expr]) -> Expr:
        value = factors[0]
        for factor in factors[1:]:
            value = value * factor
        return -value if self.negative else value


def _has_sigmoid(value: Expr, graph: Graph) -> bool:
    """Whether a value is a product with a sigmoid, or the negative of one."""
    while isinstance(value.operation, Negative):
        (value,) = graph.operands(value)
    return isinstance(value.operation, Multiply) and any(
        isinstance(factor.operation, Sigmoid) for factor in graph.operands(value)
    )


def _expanded(value: Expr, graph: Graph) -> list[_Product]:
    """The products whose sum a value is, also where a sum is multiplied out; few of them, or the value as it is."""
    found = [_Product.of(value, graph)]
    place = 0
    while place < len(found):
        while len(found) < _TERMS:
            product = found[place]
            index = next((i for i, factor in enumerate(product.factors) if len(terms(factor, graph)) > 1), None)
            if index is None:
                break
            others = (*product.factors[:index], *product.factors[index + 1 :])
            each = [_Product.of(term, graph) for term in terms(product.factors[index], graph)]
            found[place : place + 1] = [
                _Product((*others, *term.factors), product.negative != term.negative) for term in each
            ]
        place += 1
    return found


def complement(y: Expr, graph: Graph) -> Expr:
    """1 − y for the result y of a sigmoid: the sigmoid of −x, which keeps its digits where y rounds to 1."""
    if producer(y, Sigmoid) is None or graph.operands(y)[0].dtype != y.dtype:
        return 1 - y
    return Sigmoid()(-graph.operands(y)[0])


def _total(values: list[Expr]) -> Expr:
    return values[0] if len(values) == 1 else add_n(*values)


def _sums(value: Expr, graph: Graph, depth: int = 8) -> list[Sum]:
    """The sums of powers from which a value is computed, near to it."""
    found: dict[int, Sum] = {}
    pending = [(value, depth)]
    budget = 64
    while pending and budget:
        budget -= 1
        node, left = pending.pop()
        reduction = producer(node, Sum)
        if reduction is not None and producer(graph.operands(node)[0], Exp) is not None and reduction.axes:
            found[id(reduction)] = reduction
        elif left:
            pending.extend([(operand, left - 1) for operand in graph.operands(node)])
    return list(found.values())
