"""Values as products of factors, and sums of products multiplied out."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.core.expr import Expr
from explorer.ops.arithmetic import Multiply
from explorer.ops.elementwise import Negative, Sigmoid, SigmoidGradient
from explorer.plan.graph import Graph
from explorer.plan.links.match import producer, same
from explorer.plan.links.quotient import is_one_minus, numerator, terms

TERMS = 16
"""terms of a sum, and factors of a product, that are looked at"""


@dataclass(frozen=True)
class Product:
    """A value as a product of factors of its own shape."""

    factors: tuple[Expr, ...]
    negative: bool

    @classmethod
    def of(cls, value: Expr, graph: Graph) -> Product:
        """The factors of a value, of products of products too."""
        factors: list[Expr] = []
        pending, negative = [value], False
        while pending:
            node = pending.pop()
            operands = graph.operands(node)
            if isinstance(node.operation, Negative):
                negative = not negative
                pending += operands
            elif isinstance(node.operation, Multiply) and len(factors) + len(pending) < TERMS:
                pending += operands
            else:
                factors.append(node)
        return cls(tuple(factors), negative)

    def negated(self) -> Product:
        """The same with the other sign."""
        return Product(self.factors, not self.negative)

    def value(self) -> Expr:
        """The product, computed."""
        return self._signed(list(self.factors))

    def without(self, other: Product, graph: Graph) -> Expr | None:
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


def expanded(value: Expr, graph: Graph) -> list[Product]:
    """The products whose sum a value is, also where a sum is multiplied out; few of them, or the value as it is."""
    found = [Product.of(value, graph)]
    place = 0
    while place < len(found):
        while len(found) < TERMS:
            product = found[place]
            index = next((i for i, factor in enumerate(product.factors) if len(terms(factor, graph)) > 1), None)
            if index is None:
                break
            others = (*product.factors[:index], *product.factors[index + 1 :])
            each = [Product.of(term, graph) for term in terms(product.factors[index], graph)]
            found[place : place + 1] = [
                Product((*others, *term.factors), product.negative != term.negative) for term in each
            ]
        place += 1
    return found
