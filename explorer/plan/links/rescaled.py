"""Powers that overflow, or are rounded to 0, and cancel: computed with the exponents that are left, in any form."""

# ruff: noqa: D102  # match() is documented once, by Link

from __future__ import annotations

import math

from explorer.core.expr import Expr
from explorer.ops.arithmetic import Add, AddN, Divide, Multiply, Subtract
from explorer.ops.elementwise import Log, Log1p, Reciprocal, SigmoidGradient, log
from explorer.ops.loss import SoftmaxGradient
from explorer.ops.transcendental import Log10
from explorer.plan.graph import Graph
from explorer.plan.links.carriers import CARRIERS, SOURCES
from explorer.plan.links.scaled import Scaled, Term, Terms
from explorer.plan.links.stable import as_node
from explorer.plan.rule import Answer, Applied, Declined, Link


def scaled_values(graph: Graph) -> Scaled:
    """The terms of the values of a graph, remembered while the graph lives."""
    found = graph.notes.get(Scaled)
    if found is None:
        found = graph.notes[Scaled] = Scaled(graph)
    assert isinstance(found, Scaled)
    return found


class PowersThatCancel(Link):
    """(n / Σ eˣ)·eˣ, eˣ / (eˣ + eʸ) and what else divides powers by powers: the exponents are subtracted instead."""

    roots = (Multiply, Divide, Reciprocal, Add, AddN, Subtract, SoftmaxGradient, SigmoidGradient)
    over = CARRIERS
    among = SOURCES

    def match(self, node: Expr, graph: Graph) -> Answer:
        values = scaled_values(graph)
        terms = values.terms(node) or values.cancelled(node)
        if terms is None or node.uid in values.made or not self._is_mended(node, terms, values, graph):
            return None
        with values.making():
            value = as_node(values.total(terms, node), node)
        return Applied(
            value,
            "powers in {node} may overflow or be rounded to 0 and divide each other: what is left of their exponents"
            " is computed first",
            {"node": node, "terms": len(terms)},
            "powers_cancelled",
        )

    @staticmethod
    def _is_mended(node: Expr, terms: Terms, values: Scaled, graph: Graph) -> bool:
        """Whether an operand, or what divides, may overflow, and the result cannot."""
        if any(values.shares(term) is None for term in terms):
            return False
        operands = [*map(values.of, graph.operands(node))]
        if isinstance(node.operation, (Divide, Reciprocal)):
            below = values.over([Term(1.0, None, {})], operands.pop())
            if below is None:
                return False
            operands.append(below)
        return any(values.shares(term) is None for each in operands for term in each)


class LogOfPowers(Link):
    """The log of products, quotients and positive sums of powers is computed from their exponents."""

    roots = (Log, Log1p, Log10)
    over = CARRIERS
    among = SOURCES

    def match(self, node: Expr, graph: Graph) -> Answer:
        values = scaled_values(graph)
        (y,) = graph.operands(node)
        terms = values.terms(y) or values.cancelled(y)
        if terms is None or y.dtype != node.dtype:
            return None
        if isinstance(node.operation, Log1p):
            terms = values.plus([Term(1.0, None, {})], terms)
        if len(terms) != 1 or terms[0].weighted or not terms[0].number > 0:
            if all(values.shares(term) is not None for term in terms):
                return None
            reason = "{y} adds or subtracts powers with weights that are not known to be positive"
            return Declined("weights", reason, {"y": y})
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
        return Applied(
            as_node(value, node),
            "powers in {y} may overflow or be rounded to 0: their log is computed from their exponents",
            {"y": y},
            "log_of_powers",
        )
