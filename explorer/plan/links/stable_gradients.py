"""Gradients of what overflows as written: no division by what may be 0, no product with an overflown power."""

# ruff: noqa: D102  # match() is documented once, by Link

from __future__ import annotations

from explorer.core.expr import Expr
from explorer.ops.arithmetic import Add, AddN, Multiply, Subtract, add_n
from explorer.ops.base import cast
from explorer.ops.elementwise import Exp, Negative, Sigmoid, SigmoidGradient
from explorer.ops.loss import NllLossGradient, Softmax, SoftmaxGradient
from explorer.ops.reduce import Sum
from explorer.plan.graph import Graph
from explorer.plan.links.match import is_real, producer, same
from explorer.plan.links.product import TERMS, expanded
from explorer.plan.links.quotient import (
    Test,
    Total,
    has_quotient,
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
        divided, rest = _divided(upstream, is_value(y, graph), graph)
        if not divided:
            return None
        found = [n - y * Sum(axes, True)(n) for n in divided]
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
        is_own, is_other = is_value(y, graph), is_complement(y, graph)
        by_value, rest = _divided(upstream, lambda divisor: is_own(divisor) or is_other(divisor), graph)
        found = [n * complement(y, graph) for n in by_value]
        others, rest = rest, []
        for term in others:
            by_complement, left = _divided(term, is_one_minus(y, graph), graph)
            found.extend([n * y for n in by_complement])
            rest.extend(left)
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
        found: list[Expr] = []
        codes: list[str] = []

        def known(term: Expr) -> bool:
            """Whether a term is a quotient, whose product with the powers is entered then."""
            n = numerator(term, one_plus, graph, inverts=inverse) if term.shape == node.shape else None
            if n is not None:
                found.append(n * Sigmoid()(x))
                codes.append("softplus_gradient")
                return True
            for total in totals:
                n = total.numerator(term)
                if n is not None:
                    found.append(n * Softmax(total.axes)(x))
                    codes.append("logsumexp_gradient")
                    return True
            return False

        for term in terms(quotient, graph):
            if known(term):
                continue
            products = [product.value() for product in expanded(term, graph)] if has_quotient(term, graph) else []
            rest = [product for product in products if not known(product)] if len(products) > 1 else products
            found.extend([each * powers for each in rest] if len(rest) < len(products) else [term * powers])
        if not codes:
            return None
        return Applied(
            as_node(_total(found), node),
            "{powers} over its own sum is a softmax, over 1 + {powers} a sigmoid: {powers} itself is not computed",
            {
                "powers": powers,
                "softmax": codes.count("logsumexp_gradient"),
                "sigmoid": codes.count("softplus_gradient"),
                "terms": len(found),
            },
            max(codes),
        )


class SumWithComplement(Link):
    """t − t·s is t·(1 − s) for a sigmoid s: a gradient of it, or n where t is n / (1 − s), and nothing is divided."""

    roots = (Add, AddN, Subtract)
    over = (Negative, Multiply)

    def match(self, node: Expr, graph: Graph) -> Answer:
        operands = graph.operands(node)
        if len(operands) > TERMS or not is_real(node) or any(operand.type is not node.type for operand in operands):
            return None
        if not any(_has_sigmoid(operand, graph) for operand in operands):
            return None
        negative = isinstance(node.operation, Subtract)
        products = [
            product.negated() if negative and place else product
            for place, operand in enumerate(operands)
            for product in expanded(operand, graph)
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


def _has_sigmoid(value: Expr, graph: Graph) -> bool:
    """Whether a value is a product with a sigmoid, or the negative of one."""
    while isinstance(value.operation, Negative):
        (value,) = graph.operands(value)
    return isinstance(value.operation, Multiply) and any(
        isinstance(factor.operation, Sigmoid) for factor in graph.operands(value)
    )


def complement(y: Expr, graph: Graph) -> Expr:
    """1 − y for the result y of a sigmoid: the sigmoid of −x, which keeps its digits where y rounds to 1."""
    if producer(y, Sigmoid) is None or graph.operands(y)[0].dtype != y.dtype:
        return 1 - y
    return Sigmoid()(-graph.operands(y)[0])


def _divided(value: Expr, divides: Test, graph: Graph) -> tuple[list[Expr], list[Expr]]:
    """n for each term n / d of a sum, also where a product with a sum has to be multiplied out, and the other terms."""
    if not has_quotient(value, graph):
        return [], [value]
    found: list[Expr] = []
    rest: list[Expr] = []
    for term in terms(value, graph):
        n = numerator(term, divides, graph)
        if n is not None:
            found.append(n)
            continue
        products = [product.value() for product in expanded(term, graph)]
        numerators = [numerator(product, divides, graph) for product in products] if len(products) > 1 else []
        if any(n is not None for n in numerators):
            found.extend([n for n in numerators if n is not None])
            rest.extend([product for product, n in zip(products, numerators, strict=True) if n is None])
        else:
            rest.append(term)
    return found, rest


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
