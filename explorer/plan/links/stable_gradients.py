"""Gradients of what overflows as written: no division by what may be 0, no product with an overflown power."""

# ruff: noqa: D102  # match() is documented once, by Link

from __future__ import annotations

from explorer.core.expr import Expr
from explorer.ops.arithmetic import Multiply, add_n
from explorer.ops.elementwise import Exp, Sigmoid, SigmoidGradient
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
    """sigmoid-gradient of n / s is n·(1 − s), of n / (1 − s) is n·s: no division by a probability."""

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
                found.append(n * (1 - y))
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
    """(n / s)·s is n for the result s of a softmax or sigmoid, which is positive until it underflows."""

    roots = (Multiply,)

    def match(self, node: Expr, graph: Graph) -> Answer:
        operands = graph.operands(node)
        if not is_real(node):
            return None
        for y, quotient in (operands, operands[::-1]):
            if isinstance(y.operation, (Softmax, Sigmoid)) and quotient.shape == y.shape == node.shape:
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
                    reason = "{y} divides and multiplies: it is positive, but may underflow to 0"
                    facts = {"y": y, "other_terms": len(rest)}
                    return Applied(as_node(_total([*found, *rest]), node), reason, facts, "cancelled")
        return None


class GradientOfExponentials(Link):
    """(n / Σ eˣ)·eˣ is n·softmax(x), (n / (1 + eˣ))·eˣ is n·sigmoid(x): no power is computed."""

    roots = (Multiply,)

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
