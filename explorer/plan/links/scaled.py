"""Values as sums of number · mantissa · eˣ with formal exponents x: what overflows in a graph and cancels is seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

from explorer.core.expr import Expr
from explorer.core.operation import Operation
from explorer.core.types import Shape
from explorer.ops.arithmetic import Multiply, add_n
from explorer.ops.base import reshape
from explorer.ops.elementwise import Negative, exp, reciprocal, tanh
from explorer.ops.loss import Softmax
from explorer.ops.movement import broadcast_to
from explorer.ops.reduce import Sum
from explorer.ops.structured import full
from explorer.plan.graph import Graph
from explorer.plan.links.exponents import Exponent, added, axes_of, one_plus
from explorer.plan.links.exponents import scaled as times_exponent
from explorer.plan.links.match import constant
from explorer.plan.links.powers import Powers, Share

_TERMS = 12
"""terms of a sum, and of an addition, that are kept apart"""


@dataclass(frozen=True)
class Term:
    """Number · mantissa · eˣ; no mantissa is 1."""

    number: float
    mantissa: Expr | None
    exponent: Exponent
    weighted: bool = False
    """the mantissa is a sum of shares, of which small ones are lost: it may only be multiplied by shares again"""

    @property
    def pure(self) -> bool:
        """Whether it is a positive number times a power."""
        return self.mantissa is None and self.number > 0


Terms: TypeAlias = "list[Term]"
Rule: TypeAlias = "Callable[[Scaled, Expr, tuple[Expr, ...]], Terms | None]"


class Scaled:
    """The values of one graph, as terms; what is no sum of such terms is a mantissa."""

    rules: ClassVar[dict[type[Operation], Rule]] = {}
    """what operations do with the terms of their operands"""
    sources: ClassVar[set[type[Operation]]] = set()
    """operations whose results overflow, or are rounded to 0, though they are positive"""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.exponents = graph, Powers(graph)
        self._terms: dict[int, Terms | None] = {}
        """by uid; None for what has no power in it"""
        self._cancelled: dict[int, Terms] = {}

    def terms(self, node: Expr) -> Terms | None:
        """The terms of a value; None where no power is in it that this module knows."""
        node = self.graph.resolve(node)
        pending, found = [node], self._terms
        while pending:
            current = pending[-1]
            if current.uid in found:
                pending.pop()
                continue
            rule = self.rules.get(type(current.operation))
            if rule is None or current.dtype.kind != "f" or not current.size:
                found[current.uid] = None
                pending.pop()
                continue
            operands = self.graph.operands(current)
            if type(current.operation) not in self.sources:
                waiting = [operand for operand in operands[: _TERMS + 1] if operand.uid not in found]
                if waiting:
                    pending.extend(waiting)
                    continue
                if all(found[operand.uid] is None for operand in operands[: _TERMS + 1]):
                    found[current.uid] = None
                    pending.pop()
                    continue
            pending.pop()
            fits = all(operand.size and operand.dtype == current.dtype for operand in operands)
            terms = rule(self, current, operands) if fits else None
            if terms is not None and len(terms) > _TERMS:
                terms = None
            if terms is not None and not any(term.exponent for term in terms):
                self._cancelled[current.uid] = terms
                terms = None
            found[current.uid] = terms
        return found[node.uid]

    def cancelled(self, node: Expr) -> Terms | None:
        """The terms of a value in which all powers cancel."""
        return self._cancelled.get(node.uid) if self.terms(node) is None else None

    def of(self, node: Expr) -> Terms:
        """The terms of a value, itself as a mantissa where it has none."""
        terms = self.terms(node)
        if terms is not None:
            return terms
        number = constant(node, self.graph)
        if isinstance(number, (int, float)) and math.isfinite(number) and number != 0:
            return [Term(float(number), None, {})]
        node = self.graph.resolve(node)
        if isinstance(node.operation, Negative):
            return [Term(-term.number, term.mantissa, {}) for term in self.of(self.graph.operands(node)[0])]
        if isinstance(node.operation, Multiply):
            first, second = self.graph.operands(node)
            if constant(second, self.graph) == 0:  # what cancelled: a power times it does not overflow
                return [Term(0.0, first, {})]
        negatives = sum([isinstance(factor.operation, Negative) for factor in self._factors(node)])
        return [Term(-1.0, -node, {})] if negatives % 2 else [Term(1.0, node, {})]

    # -- arithmetic ------------------------------------------------------------------------------------------------

    def times(self, a: Terms, b: Terms) -> Terms | None:
        """The products of terms."""
        if len(a) * len(b) > _TERMS:
            return None
        return self.merged([product(first, second) for first in a for second in b])

    def over(self, a: Terms, b: Terms) -> Terms | None:
        """Terms divided by one."""
        if len(b) != 1 or b[0].weighted or b[0].number == 0:
            return None
        divisor = b[0]
        inverse = Term(1 / divisor.number, None, times_exponent(divisor.exponent, -1))
        found = [product(term, inverse) for term in a]
        if divisor.mantissa is None:
            return found
        return [replace(t, mantissa=quotient(t.mantissa, divisor.mantissa)) for t in found]

    def merged(self, terms: Terms) -> Terms:
        """Terms of one mantissa together: those of one exponent, and what 1 − σ(x) is taken of."""
        found: dict[Any, Terms] = {}
        for term in terms:
            own = found.setdefault((self._key(term.mantissa), term.weighted), [])
            for place, other in enumerate(own):
                if other.exponent == term.exponent:
                    own[place] = replace(other, number=other.number + term.number)
                    break
                if other.number * term.number < 0:
                    first, second = (other, term) if other.number > 0 else (term, other)
                    both = self._complement(first, second) or self._complement(second, first)
                    if both is not None:
                        own[place] = both
                        break
            else:
                own.append(term)
        every = [term for own in found.values() for term in own]
        return [term for term in every if term.number != 0] or [replace(every[0], exponent={})]

    def _factors(self, mantissa: Expr | None) -> list[Expr]:
        """The factors of a mantissa, some of them with another sign."""
        pending: list[Expr] = [] if mantissa is None else [mantissa]
        found: list[Expr] = []
        while pending:
            node = self.graph.resolve(pending.pop())
            inner = node
            while isinstance(inner.operation, Negative):
                (inner,) = self.graph.operands(inner)
            if isinstance(inner.operation, Multiply) and len(pending) + len(found) < _TERMS:
                pending += self.graph.operands(inner)
                if node is not inner:
                    found.append(node)
            else:
                found.append(node)
        return found

    def _key(self, mantissa: Expr | None) -> tuple[int, ...]:
        """What a mantissa without its sign is known again by."""
        keys = []
        for factor in self._factors(mantissa):
            inner = factor
            while isinstance(inner.operation, Negative):
                (inner,) = self.graph.operands(inner)
            if inner is factor or not isinstance(inner.operation, Multiply):
                keys.append(self.exponents.number(inner))
        return tuple(sorted(keys))

    def _complement(self, larger: Term, smaller: Term) -> Term | None:
        """n·eᵃ − n·eᵃ·σ(x) as n·eᵃ·σ(−x)."""
        if larger.number != -smaller.number:
            return None
        shares = self.exponents.shares(added(smaller.exponent, larger.exponent, -1))
        complement = None if shares is None else self.exponents.complement(shares)
        return None if complement is None else replace(larger, exponent=added(larger.exponent, complement))

    def plus(self, a: Terms, b: Terms) -> Terms:
        """The sum of terms: one term where both are positive powers, or one is taken from the other."""
        if len(a) == len(b) == 1 and a[0].mantissa is None and b[0].mantissa is None:
            first, second = a[0], b[0]
            if first.exponent == second.exponent:
                return self.merged([first, second])
            if first.pure and second.pure:
                number, power = one_plus(added(second.exponent, first.exponent, -1), second.number / first.number)
                return [Term(first.number * number, None, added(first.exponent, power))]
            if first.number * second.number < 0:
                found = self._difference(first, second) if first.number > 0 else self._difference(second, first)
                if found is not None:
                    return [found]
        return self.merged([*a, *b])

    def _difference(self, larger: Term, smaller: Term) -> Term | None:
        """eᵃ − eᵇ as a tanh times eᵃ + eᵇ, where neither is a part of the other."""
        if larger.number != -smaller.number:
            return None
        ratio = added(smaller.exponent, larger.exponent, -1)
        if any(self.exponents.shares(times_exponent(ratio, sign)) is not None for sign in (1, -1)):
            return None
        number, power = one_plus(ratio, 1.0)
        half = self.exponents.log(times_exponent(ratio, -0.5))
        return Term(larger.number * number, tanh(half), added(larger.exponent, power))

    def summed(self, term: Term, axes: tuple[int, ...], shape: Shape) -> Term:
        """A term summed over axes of a value of a shape, which are kept."""
        places = {axis - len(shape) for axis in axes if shape[axis] > 1}
        varying = {atom: times for atom, times in term.exponent.items() if axes_of(atom) & places}
        rest = {atom: times for atom, times in term.exponent.items() if atom not in varying}
        count = math.prod([shape[axis] for axis in axes])
        if not varying:
            if term.mantissa is None:
                return replace(term, number=term.number * count)
            return replace(term, mantissa=Sum(axes, True)(broadcast_to(term.mantissa, shape)))
        if not term.pure and self.exponents.shares(term.exponent) is not None:
            value = broadcast_to(self.value(replace(term, number=1.0)), shape)
            return Term(term.number, Sum(axes, True)(value), {})
        x = self.exponents.log(varying)
        x = reshape(x, (1,) * (len(shape) - x.ndim) + x.shape)
        inner = tuple([axis for axis in axes if x.shape[axis] > 1])
        exponent = added(rest, self.exponents.total(x, inner))
        if term.mantissa is None:
            return Term(term.number * count / math.prod([x.shape[axis] for axis in inner]), None, exponent)
        value = broadcast_to(term.mantissa * Softmax(inner)(x), shape)
        return Term(term.number, Sum(axes, True)(value), exponent, True)

    # -- values ----------------------------------------------------------------------------------------------------

    def shares(self, term: Term) -> list[Share] | None:
        """The shares whose product is the term's power; None where it may overflow."""
        return self.exponents.shares(term.exponent)

    def value(self, term: Term) -> Expr:
        """A term, computed."""
        value = term.mantissa
        shares = self.shares(term)
        powers = [exp(self.exponents.log(term.exponent))] if shares is None else [*map(self.exponents.share, shares)]
        for power in powers:
            value = power if value is None else value * power
        assert value is not None
        if abs(term.number) != 1:
            value = value * abs(term.number)
        return -value if term.number < 0 else value

    def total(self, terms: Terms, node: Expr) -> Expr:
        """The sum of terms, computed."""
        values = []
        for term in terms:
            if term.mantissa is None and not term.exponent:
                values.append(full((), term.number, node.dtype, node.type.device))
            else:
                values.append(self.value(term))
        return values[0] if len(values) == 1 else add_n(*values)


def quotient(a: Expr | None, b: Expr) -> Expr:
    """a / b, 1 / b without an a."""
    return reciprocal(b) if a is None else a / b


def product(a: Term, b: Term) -> Term:
    """The product of two terms."""
    mantissa = a.mantissa if b.mantissa is None else b.mantissa if a.mantissa is None else a.mantissa * b.mantissa
    number = a.number * b.number
    exponent = added(a.exponent, b.exponent) if number else {}
    return Term(number, mantissa, exponent, a.weighted or b.weighted)
