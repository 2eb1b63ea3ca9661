"""Arithmetic of terms number · mantissa · eˣ: products, quotients and sums, in which equal exponents cancel.

A value is a list of such terms, whose sum it is. Two sorts of cancellation must not go unnoticed. Where an exponent
cancels, a NaN in it would be lost: the term remembers the leaves (``gone``) and adds 0 · leaf in the end. Where terms
cancel (n − n), their mantissas are remembered likewise. And 1 − σ(x) is kept as σ(−x), not as a difference, which would
lose its digits.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape
from explorer.ops.base import broadcast_to, reshape
from explorer.ops.elementwise.arithmetic import Multiply
from explorer.ops.elementwise.unary import Negative, exp, tanh
from explorer.ops.nn.softmax import Softmax
from explorer.ops.reduction.reduce import Sum
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.rules.algebra.graph_exponents import Powers, Share
from explorer.plan.rewrite.rules.algebra.overflow_risks import TERMS
from explorer.plan.rewrite.rules.algebra.powers import Exponent, Leaf, Mantissa, added, axes_of, one_plus, over, times
from explorer.plan.rewrite.rules.algebra.powers import scaled as times_exponent

_LIMITS = np.finfo(np.float64)
LOG_LIMIT = 690.0
"""largest x for which eˣ and e⁻ˣ are float64 numbers with all their digits"""

NOTHING: frozenset[Leaf | Mantissa] = frozenset()


class Term(NamedTuple):
    """Number · mantissa · eˣ, where None for the mantissa is 1."""

    number: float
    mantissa: Mantissa | None
    exponent: Exponent
    weighted: bool = False
    """the mantissa is a sum of shares, of which small ones are lost: it may only be multiplied by shares again"""
    gone: frozenset[Leaf | Mantissa] = NOTHING
    """values that cancelled out of it: where one of them is NaN, so is the term"""

    @property
    def pure(self) -> bool:
        """Whether it is a positive number times a power."""
        return self.mantissa is None and self.number > 0

    @property
    def axes(self) -> set[int]:
        """The axes, counted from the end, along which it varies."""
        own = set[int]() if self.mantissa is None else self.mantissa.axes
        return own.union(*[axes_of(atom) for atom in self.exponent], *[lost.axes for lost in self.gone])


Terms: TypeAlias = "list[Term]"


class Algebra:
    """Arithmetic of terms whose exponents are those of one graph."""

    def __init__(self, graph: PlanGraph) -> None:
        self.graph, self.exponents = graph, Powers(graph)

    def times(self, a: Terms, b: Terms) -> Terms | None:
        """Return the products of terms; None for too many, and for numbers that are too large or too small."""
        # Products of sums grow exponentially with their number.
        if len(a) * len(b) > TERMS:
            return None
        products = [self.product(first, second) for first in a for second in b]
        return None if None in products else self.merged([term for term in products if term is not None])

    def over(self, a: Terms, b: Terms) -> Terms | None:
        """Return terms divided by a single one; None where the divisor is a sum, 0, or has lost small shares."""
        if len(b) != 1 or b[0].weighted or b[0].number == 0:
            return None
        divisor = b[0]
        inverse = Term(1 / divisor.number, None, times_exponent(divisor.exponent, -1), False, divisor.gone)
        if not is_within(inverse.number):
            return None
        quotients = [term for term in [self.product(term, inverse) for term in a] if term is not None]
        if len(quotients) < len(a):
            return None
        if divisor.mantissa is None:
            return quotients
        return [t._replace(mantissa=over(t.mantissa, divisor.mantissa)) for t in quotients]

    def product(self, a: Term, b: Term) -> Term | None:
        """Return the product of two terms; None where its number is too large, or too small, for a float."""
        number = a.number * b.number
        if not is_within(number) or (not number and a.number and b.number):
            return None
        mantissa = times(a.mantissa, b.mantissa)
        exponent = added(a.exponent, b.exponent) if number else {}
        gone = self._gone(a, b.exponent, exponent) | b.gone
        return Term(number, mantissa, exponent, a.weighted or b.weighted, gone)

    def _gone(self, term: Term, other: Exponent, left: Exponent) -> frozenset[Leaf | Mantissa]:
        """Return the values that were lost from a term and another exponent when only ``left`` remains of both."""
        lost = [atom for exponent in (term.exponent, other) for atom in exponent if atom not in left]
        return term.gone.union(*[self.exponents.leaves(atom) for atom in lost]) if lost else term.gone

    def merged(self, terms: Terms) -> Terms:
        """Merge terms of one mantissa: equal exponents add their numbers, and n − n · σ(x) becomes n · σ(−x).

        A merged term may merge again with others; the number of tries is bounded.
        """
        if len(terms) == 1:
            return terms
        by_mantissa: dict[Any, list[tuple[Term, int]]] = {}
        pending, left = terms[::-1], 4 * TERMS
        while pending:
            term, left = pending.pop(), left - 1
            # A mantissa and its negative merge, too, with the sign in the number.
            key, sign = self._key(term.mantissa)
            own = by_mantissa.setdefault((key, term.weighted), [])
            for place, (other, of_other) in enumerate(own):
                number = term.number * sign * of_other
                if other.exponent == term.exponent:
                    gone = other.gone | term.gone
                    own[place] = other._replace(number=other.number + number, gone=gone), of_other
                    break
                if other.number * number < 0 and left > 0:
                    same = term._replace(number=number, mantissa=other.mantissa)
                    parts = self._complement(other, same) or self._complement(same, other)
                    if parts is not None:
                        del own[place]
                        pending += parts
                        break
            else:
                own.append((term, sign))
        every = [term for own in by_mantissa.values() for term, _ in own]
        kept = [term for term in every if term.number != 0]
        if len(kept) == len(every):
            return every
        first, *others = kept or [Term(0.0, every[0].mantissa, {})]
        gone = first.gone.union(*[self._all(term) for term in every if term.number == 0])
        return [first._replace(gone=gone - {first.mantissa}), *others]

    def _all(self, term: Term) -> frozenset[Leaf | Mantissa]:
        """Return everything that is lost with a term."""
        own = self._gone(term, {}, {})
        return own if term.mantissa is None else own | {term.mantissa}

    def _key(self, mantissa: Mantissa | None) -> tuple[tuple[int, ...], int]:
        """Return the numbers of a mantissa's factors, in order, and its sign: equal products have equal keys."""
        pending: list[Expr] = []
        if mantissa is not None:
            pending = [factor.value() for factor in mantissa.factors or (mantissa,)]
        numbers: list[int] = []
        sign = 1
        while pending:
            node = self.graph.resolve(pending.pop())
            if isinstance(node.operation, Negative):
                sign = -sign
                pending += self.graph.operands(node)
            elif isinstance(node.operation, Multiply) and len(pending) + len(numbers) < TERMS:
                pending += self.graph.operands(node)
            else:
                numbers.append(self.exponents.number(node))
        return tuple(sorted(numbers)), sign

    def _complement(self, larger: Term, smaller: Term) -> Terms | None:
        """Return n·eᵃ − m·eᵃ·σ(x) as n·eᵃ·σ(−x), and a second term where n and m differ; None for other terms."""
        rest = larger.number + smaller.number
        if rest and self.shares(larger) is not None:  # neither of them overflows
            return None
        shares = self.exponents.shares(added(smaller.exponent, larger.exponent, -1))
        complement = None if shares is None else self.exponents.complement(shares)
        if complement is None:
            return None
        is_first = abs(larger.number) > abs(smaller.number)
        number = -smaller.number if is_first else larger.number
        exponent = added(larger.exponent, complement)
        gone = self._gone(larger, complement, exponent) | smaller.gone
        both = larger._replace(number=number, exponent=exponent, gone=gone)
        return [both, (larger if is_first else smaller)._replace(number=rest)] if rest else [both]

    def plus(self, a: Terms, b: Terms) -> Terms:
        """Return the sum of terms: one term for two positive powers, eᵃ + eᵇ = eᵃ·(1 + eᵇ⁻ᵃ), or for their
        difference."""
        if len(a) == len(b) == 1 and a[0].mantissa is None and b[0].mantissa is None:
            first, second = a[0], b[0]
            if first.exponent == second.exponent:
                return self.merged([first, second])
            if first.pure and second.pure:
                offset = math.log(second.number) - math.log(first.number)
                is_outside, power = one_plus(added(second.exponent, first.exponent, -1), offset)
                exponent = added(first.exponent, power)
                gone = self._gone(first, power, exponent) | second.gone
                return [Term((second if is_outside else first).number, None, exponent, False, gone)]
            if first.number * second.number < 0:
                difference = self._difference(first, second) if first.number > 0 else self._difference(second, first)
                if difference is not None:
                    return [difference]
        return self.merged([*a, *b])

    def _difference(self, larger: Term, smaller: Term) -> Term | None:
        """Return eᵃ − eᵇ as tanh((a − b) / 2) · (eᵃ + eᵇ), where neither is a part of the other.

        The tanh has the sign and the digits of the difference; the sum is a power that may cancel.
        """
        if larger.number != -smaller.number:
            return None
        ratio = added(smaller.exponent, larger.exponent, -1)
        if any(self.exponents.shares(times_exponent(ratio, sign)) is not None for sign in (1, -1)):
            return None
        _, power = one_plus(ratio)
        half = self.exponents.log(times_exponent(ratio, -0.5))
        exponent = added(larger.exponent, power)
        gone = self._gone(larger, power, exponent) | smaller.gone
        return Term(larger.number, Mantissa.of(tanh(half)), exponent, False, gone)

    def summed(self, term: Term, axes: tuple[int, ...], shape: Shape, as_power: bool = True) -> Term:
        """Return a term summed over axes of a value of a shape; the axes are kept.

        ``as_power``: the sum of powers becomes a power, log Σ eˣ, whose log can be taken later. Otherwise powers that
        cannot overflow are summed as numbers. Mantissas are summed with softmax weights, so that nothing overflows.
        """
        places = {axis - len(shape) for axis in axes if shape[axis] > 1}
        varying = {atom: times for atom, times in term.exponent.items() if axes_of(atom) & places}
        rest = {atom: times for atom, times in term.exponent.items() if atom not in varying}
        count = math.prod([shape[axis] for axis in axes])
        kept = tuple([1 if axis in axes else size for axis, size in enumerate(shape)])
        mantissa = term.mantissa
        if term.gone:
            term = term._replace(gone=self._summed_leaves(term.gone, axes, shape))
        if not varying:
            if mantissa is None:
                return term._replace(number=term.number * count)
            return term._replace(mantissa=_total(mantissa, axes, shape, kept))
        if not (term.pure and as_power) and self.shares(term) is not None:
            unscaled = term._replace(number=1.0)
            total = Mantissa(kept, lambda: Sum(axes, True)(broadcast_to(self.value(unscaled), shape)))
            return Term(term.number, total, {}, False, term.gone)
        x = self.exponents.log(varying)
        x = reshape(x, (1,) * (len(shape) - x.ndim) + x.shape)
        inner = tuple([axis for axis in axes if x.shape[axis] > 1])
        power = self.exponents.total(x, inner)
        exponent = added(rest, power)
        gone = self._gone(term._replace(exponent=rest), power, exponent)
        if mantissa is None:
            number = term.number * count / math.prod([x.shape[axis] for axis in inner])
            return Term(number, None, exponent, False, gone)

        def weighted() -> Expr:
            return Sum(axes, True)(broadcast_to(mantissa.value() * Softmax(inner)(x), shape))

        return Term(term.number, Mantissa(kept, weighted), exponent, True, gone)

    def _summed_leaves(
        self, gone: frozenset[Leaf | Mantissa], axes: tuple[int, ...], shape: Shape
    ) -> frozenset[Leaf | Mantissa]:
        """Return values that cancelled, summed over axes that are kept: the sum is NaN where one of them is."""
        places = {axis - len(shape) for axis in axes}
        kept = tuple([1 if axis in axes else size for axis, size in enumerate(shape)])
        return frozenset(
            [lost.summed(places) if isinstance(lost, Leaf) else _total(lost, axes, shape, kept) for lost in gone]
        )

    def shares(self, term: Term) -> list[Share] | None:
        """Return the shares (softmaxes, sigmoids) whose product is the term's power; None where it may overflow."""
        shares = self.exponents.shares(term.exponent)
        return None if shares is None or any(abs(share.log_factor) > LOG_LIMIT for share in shares) else shares

    def is_bounded(self, term: Term, dtype: np.dtype[Any]) -> bool:
        """Whether a term can be computed without overflow: its power has shares, its numbers are floats."""
        shares = self.shares(term)
        if shares is None:
            return False
        limits = np.finfo(dtype)
        numbers = [abs(term.number), *[math.exp(share.log_factor) for share in shares]]
        return all(float(limits.tiny) <= number <= float(limits.max) or not number for number in numbers)

    def value(self, term: Term) -> Expr:
        """Record the value of a term."""
        value = None if term.mantissa is None else term.mantissa.value()
        shares = self.shares(term)
        powers = [exp(self.exponents.log(term.exponent))] if shares is None else [*map(self.exponents.share, shares)]
        for power in powers:
            value = power if value is None else value * power
        assert value is not None
        if abs(term.number) != 1:
            value = value * abs(term.number)
        return -value if term.number < 0 else value


def _total(mantissa: Mantissa, axes: tuple[int, ...], shape: Shape, kept: Shape) -> Mantissa:
    """Return a mantissa summed over axes of a value of a shape; the axes are kept."""
    return Mantissa(kept, lambda: Sum(axes, True)(broadcast_to(mantissa.value(), shape)))


def is_within(number: float) -> bool:
    """Whether a float holds a number with all its digits."""
    return number == 0 or float(_LIMITS.tiny) <= abs(number) <= float(_LIMITS.max)
