"""Exponents recorded again: powers as products of softmaxes and sigmoids, logs without differences of large numbers.

An exponent is a sum of atoms with coefficients, and there are many ways to compute it. `shares` finds one in which no
factor can overflow, if there is one: every log Σ eˣ with a negative coefficient must become the divisor of a softmax,
every log(1 + eᵈ) that of a sigmoid. `log` finds one in which nothing large is subtracted from its like: log-softmax,
softplus and logaddexp in the place of their definitions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.ops.elementwise.trigonometric_and_logs import logaddexp
from explorer.ops.elementwise.unary import Sigmoid, softplus
from explorer.ops.nn.softmax import LogSoftmax, LogSumExp, Softmax
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.rules.algebra.axis_places import Places, at_places, below_views
from explorer.plan.rewrite.rules.algebra.exponent_reader import ExponentReader
from explorer.plan.rewrite.rules.algebra.powers import (
    Atom,
    Exponent,
    OnePlus,
    Total,
    Variable,
    added,
    moved_all,
    scaled,
)

_TRIES = 64
"""products of softmaxes and sigmoids that are tried for one power: the search branches at each sigmoid"""


class Share(NamedTuple):
    """A factor between 0 and 1: a softmax at a place, or the sigmoid of ± an exponent."""

    atom: Total | OnePlus
    places: Places = ()
    sign: int = 1

    @property
    def log_factor(self) -> float:
        """The log of the number that a sigmoid must be multiplied by."""
        return -self.atom.offset if isinstance(self.atom, OnePlus) and self.sign > 0 else 0.0


class Powers(ExponentReader):
    """The exponents of one graph, read and recorded again."""

    def __init__(self, graph: PlanGraph) -> None:
        super().__init__(graph)
        self._shares_of: dict[frozenset[tuple[Atom, float]], list[Share] | None] = {}
        """exponent → the shares of its power, once looked for"""

    @staticmethod
    def complement(shares: list[Share]) -> Exponent | None:
        """Return the exponent of 1 − s for one sigmoid s, which is σ(−x); None for other shares."""
        if len(shares) != 1 or not isinstance(shares[0].atom, OnePlus) or shares[0].atom.offset:
            return None
        atom = shares[0].atom
        return {atom: -1.0} if shares[0].sign > 0 else added(dict(atom.exponent), {atom: -1})

    def shares(self, exponent: Exponent) -> list[Share] | None:
        """Return the softmaxes and sigmoids whose product is the power of an exponent; None if it is no such
        product."""
        if not exponent:
            return []
        if all(times > -1 or type(atom) is Variable for atom, times in exponent.items()):
            return None  # no sum of powers, nor 1 + a power, divides
        key = frozenset(exponent.items())
        if key not in self._shares_of:
            self._shares_of[key] = self._shares(exponent, [_TRIES])
        return self._shares_of[key]

    def _shares(self, exponent: Exponent, budget: list[int]) -> list[Share] | None:
        """Search depth first: take a share off the exponent, then those of the rest; ``budget`` counts tries down."""
        if not exponent:
            return []
        outer = self._outermost([atom for atom, times in exponent.items() if times <= -1])
        budget[0] -= 1
        if outer is None or budget[0] < 0:
            return None
        for share, part in self._options(outer, exponent):
            further = self._shares(added(exponent, part, -1), budget)
            if further is not None:
                return [share, *further]
        return None

    def _options(self, atom: Total | OnePlus, exponent: Exponent) -> list[tuple[Share, Exponent]]:
        """Return the shares in which an atom is the divisor, with their exponents, the likelier first."""
        if isinstance(atom, Total):
            share = self._member(atom, exponent)
            if share is None:
                return []
            return [(share, added(self._parts_at(share.atom.number, share.places), {atom: -1}))]  # type: ignore[union-attr]
        inner: Exponent = dict(atom.exponent)
        both: list[tuple[Share, Exponent]] = [
            (Share(atom, (), 1), added(inner, {atom: -1})),
            (Share(atom, (), -1), {atom: -1.0}),
        ]
        return both if any(exponent.get(part, 0) * times > 0 for part, times in inner.items()) else both[::-1]

    def _member(self, total: Total, exponent: Exponent) -> Share | None:
        """Return the softmax whose divisor a total is and whose power an exponent has; None if there is none."""
        for view in self._views(total):
            base = self._values[view.number]
            plain = tuple([axis - base.ndim if size > 1 else 0 for axis, size in enumerate(base.shape)])
            for part in self._parts_at(view.number, plain):
                for atom in exponent:
                    if not isinstance(part, Variable) or not isinstance(atom, Variable) or atom.number != part.number:
                        continue
                    at = {own: place for own, place in zip(part.places, atom.places, strict=True) if own}
                    places = tuple(
                        [at.get(i - base.ndim, 0) if i in view.axes else p for i, p in enumerate(view.places)]
                    )
                    used = [place for place in places if place]
                    if not all(places[axis] for axis in view.axes) or len({*used}) < len(used):
                        continue
                    left = added(exponent, self._parts_at(view.number, places), -1)
                    if left.keys() <= exponent.keys() and _size(left) < _size(exponent):
                        return Share(view, places)
        return None

    def _outermost(self, atoms: list[Atom]) -> Total | OnePlus | None:
        """Return the atom that contains other atoms, and of none in the list; None if all are variables."""
        composed = [atom for atom in atoms if not isinstance(atom, Variable)]
        return max(composed, key=self._height) if composed else None

    def _height(self, atom: Atom) -> int:
        """Return how many atoms are nested in an atom."""
        if isinstance(atom, Variable):
            return 0
        inner = (
            [part for part, _ in atom.exponent] if isinstance(atom, OnePlus) else [*self._parts.get(atom.number, ())]
        )
        return 1 + max([self._height(part) for part in inner], default=0)

    def share(self, share: Share) -> Expr:
        """Record the value of a share."""
        if isinstance(share.atom, Total):
            return at_places(Softmax(share.atom.axes)(self._values[share.atom.number]), share.places)
        x = self._log_with(share.atom)
        if share.sign < 0:
            return Sigmoid()(-x)
        return Sigmoid()(x) * math.exp(share.log_factor) if share.atom.offset else Sigmoid()(x)

    def _log_with(self, atom: OnePlus) -> Expr:
        """Record d + offset for the atom log(1 + eᵈ⁺ᵒᶠᶠˢᵉᵗ)."""
        value = self.log(dict(atom.exponent))
        return value + atom.offset if atom.offset else value

    def log(self, exponent: Exponent) -> Expr:
        """Record the value of an exponent that is not empty, never as a difference of large, nearly equal numbers.

        The value is remembered with its atoms, so that it is read as them where it is met again.
        """
        value = self._log(exponent)
        ((atom, times), *more) = exponent.items()
        if more or times != 1 or not isinstance(atom, Variable):
            base, places = below_views(value, self.graph)
            back = {place: axis - base.ndim for axis, place in enumerate(places) if place}
            self._parts.setdefault(self.number(base), moved_all(exponent, back))
        return value

    def _log(self, exponent: Exponent) -> Expr:
        """Record an exponent from its outermost atom inwards: each becomes part of a log-softmax, softplus or sum."""
        outer = self._outermost([*exponent])
        if outer is None:
            return _sum([(self._value(atom), n) for atom, n in exponent.items() if not isinstance(atom, OnePlus)])
        times = exponent[outer]
        rest = added(exponent, {outer: -times})
        if isinstance(outer, Total):
            share = self._member(outer, exponent)
            if share is not None:
                total = share.atom
                assert isinstance(total, Total)
                left = added(rest, self._parts_at(total.number, share.places), times)
                if len(left) < len(rest):
                    p = at_places(LogSoftmax(total.axes)(self._values[total.number]), share.places)
                    return _sum([(p, -times), *([(self.log(left), 1.0)] if left else [])])
            return _sum([(self._value(outer), times), *([(self.log(rest), 1.0)] if rest else [])])
        inner = dict(outer.exponent)
        if abs(times) == 1:
            sign = -1 if times < 0 else 1
            first = scaled(rest, sign)
            return _sum([(self._log_of_two(first, added(first, inner), outer.offset), times)])
        left = added(rest, inner, times)
        if len(left) < len(rest) and not outer.offset:  # log σ(d) = −log(1 + e⁻ᵈ)
            value = softplus(-self.log(inner))
            return _sum([(value, times), *([(self.log(left), 1.0)] if left else [])])
        return _sum([(softplus(self._log_with(outer)), times), *([(self.log(rest), 1.0)] if rest else [])])

    def _log_of_two(self, a: Exponent, b: Exponent, offset: float) -> Expr:
        """Record log(eᵃ + eᵇ⁺ᵒᶠᶠˢᵉᵗ), which neither overflows nor loses the smaller power."""
        if not a or (not b and not offset):
            value = self.log(a or b)
            return softplus(value + offset if offset else value)
        second: Expr | float = self.log(b) + offset if b and offset else self.log(b) if b else offset
        return logaddexp(self.log(a), second)

    def _value(self, atom: Variable | Total) -> Expr:
        """Record the value of an atom at its places."""
        base = self._values[atom.number]
        if isinstance(atom, Total):
            base = LogSumExp(atom.axes, True)(base)
        return at_places(base, atom.places)


def _size(exponent: Exponent) -> float:
    """Return the sum of the coefficients' sizes, which each share that is taken off must make smaller."""
    return sum(map(abs, exponent.values()))


def _sum(terms: list[tuple[Expr, float]]) -> Expr:
    """Record Σ number · value, positive terms first, so that no negation is needed."""
    value: Expr | None = None
    for term, times in sorted(terms, key=lambda pair: pair[1] < 0):
        size = abs(times)
        part = term if size == 1 else term * size
        signed = -part if times < 0 and value is None else part
        value = signed if value is None else value - part if times < 0 else value + part
    assert value is not None
    return value
