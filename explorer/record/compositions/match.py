"""Matching of a formula with a value: which values its variables are.

Both sides are numbers of an algebra, in which equal values have one number; so a match is a search through few terms,
and not through the ways in which a program may write them. A variable takes whatever is left of a sum or a product.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from explorer.record.compositions.algebra import Algebra, Applied, Atom, Number, Product, Reduction, Sum

Bindings: TypeAlias = Mapping[str, Any]
"""variable → value; "axes" and "keeps" of the reductions, if there are any"""
_Factors: TypeAlias = tuple[float, list[tuple[int, float]], list[tuple[int, float]]]
_EPS = 0.1
"""largest number that is taken for the eps of a norm"""


class Match:
    """Matches of the values of one algebra, the formulas', with those of another; numbers are equal within a tolerance.

    Formulas are a few levels deep, however deep the graph is.
    """

    def __init__(self, formulas: Algebra, values: Algebra, tolerance: float) -> None:
        self._formulas, self._values, self._tolerance = formulas, values, tolerance
        self._known: dict[int, _Factors] = {}

    def of(self, formula: int, value: int, bound: Bindings) -> Iterator[Bindings]:
        """Yield the bindings under which a formula is a value."""
        wanted, term = self._formulas.terms[formula], self._values.terms[value]
        match wanted:
            case Atom(name=str() as name):
                if name in bound:
                    if self.equal(bound[name], value):
                        yield bound
                elif not isinstance(term, Number):
                    yield {**bound, name: value}
            case Number(value=number):
                if isinstance(term, Number) and self._close(term.value, number):
                    yield bound
            case Applied(function=function, operand=operand):
                if isinstance(term, Applied) and term.function == function:
                    yield from self.of(operand, term.operand, bound)
            case Reduction():
                yield from self._reduction(wanted, term, bound)
            case Product():
                yield from self._product(self._factors(formula), 1.0, *self._values.factors(value), bound)
            case Sum():
                yield from self._sum(wanted, *self._values.addends(value), bound)

    def _reduction(self, wanted: Reduction, term: object, bound: Bindings) -> Iterator[Bindings]:
        if not isinstance(term, Reduction) or term.function != wanted.function:
            return
        if wanted.keeps and not term.keeps:
            return
        known = {"axes": term.axes} if wanted.keeps else {"axes": term.axes, "keeps": term.keeps}
        if all(bound.get(name, fact) == fact for name, fact in known.items()):
            yield from self.of(wanted.operand, term.operand, {**bound, **known})

    def _product(
        self, wanted: _Factors, times: float, scale: float, factors: Mapping[int, float], bound: Bindings
    ) -> Iterator[Bindings]:
        """Match a product: each factor of the formula is one of the value's, and ``x`` is the rest."""
        coefficient, variables, others = wanted
        ratio = scale / (coefficient * times)
        # Exactly 1 from here on: a constant of a program is rounded, 0.7978846 for √(2/π).
        ratio = 1.0 if self._close(ratio, 1.0) else ratio
        if len(factors) < len(others) or (not variables and (ratio != 1 or len(factors) > len(others))):
            return
        for rest, bindings in self._assigned(others, factors, bound):
            if not variables:
                yield bindings
                continue
            ((variable, exponent),) = variables
            # A variable needs a value, and an even root of a negative number is none.
            if not rest or (exponent != 1 and ratio <= 0):
                continue
            root = ratio if exponent == 1 else ratio ** (1 / exponent)
            powers = {value: times / exponent for value, times in rest.items()}
            if all(power.is_integer() for power in powers.values()) or exponent == 1:
                yield from self.of(variable, self._values.product(root, powers), bindings)

    def _assigned(
        self, others: Sequence[tuple[int, float]], factors: Mapping[int, float], bound: Bindings
    ) -> Iterator[tuple[Mapping[int, float], Bindings]]:
        """Yield the factors that are left where each of the formula's has one of its own, with the same exponent."""
        if not others:
            yield factors, bound
            return
        (formula, exponent), *more = others
        for value, power in factors.items():
            if power == exponent:
                rest = {each: times for each, times in factors.items() if each != value}
                for bindings in self.of(formula, value, bound):
                    yield from self._assigned(more, rest, bindings)

    def _sum(self, wanted: Sum, constant: float, terms: Mapping[int, float], bound: Bindings) -> Iterator[Bindings]:
        """Match a sum: each term of the formula is one of the value's, and ``x`` is the rest."""
        variables, others = self._apart(dict(wanted.terms))
        by_name = {self._name(variable): (variable, times) for variable, times in variables}
        for rest, bindings in self._summands(others, terms, bound):
            left = constant - wanted.constant
            if "x" in by_name:
                variable, times = by_name["x"]
                scaled = {value: coefficient / times for value, coefficient in rest.items()}
                if rest:
                    yield from self.of(variable, self._values.total(left / times, scaled), bindings)
            elif not rest and (0 < left <= _EPS if "eps" in by_name else self._close(constant, wanted.constant)):
                yield bindings

    def _summands(
        self, others: Sequence[tuple[int, float]], terms: Mapping[int, float], bound: Bindings
    ) -> Iterator[tuple[Mapping[int, float], Bindings]]:
        if not others:
            yield terms, bound
            return
        (formula, times), *more = others
        wanted = self._factors(formula)
        for value, scale in terms.items():
            by, factors = self._values.factors(value)
            for bindings in self._product(wanted, times, by * scale, factors, bound):
                rest = {each: other for each, other in terms.items() if each != value}
                yield from self._summands(more, rest, bindings)

    def _factors(self, formula: int) -> _Factors:
        """Return a formula as a product: its coefficient, its variables with their exponents, its other factors."""
        known = self._known.get(formula)
        if known is None:
            coefficient, factors = self._formulas.factors(formula)
            known = self._known[formula] = (coefficient, *self._apart(factors))
        return known

    def _apart(self, parts: Mapping[int, float]) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
        """Return the variables among the parts of a formula, and the others."""
        terms = self._formulas.terms
        variables = [part for part in parts.items() if isinstance(terms[part[0]], Atom)]
        return variables, [part for part in parts.items() if not isinstance(terms[part[0]], Atom)]

    def _name(self, variable: int) -> object:
        term = self._formulas.terms[variable]
        return term.name if isinstance(term, Atom) else None

    def _close(self, number: float, other: float) -> bool:
        return math.isclose(number, other, rel_tol=self._tolerance)

    def equal(self, value: int, other: int) -> bool:
        """Whether two values are equal but for rounded coefficients."""
        (scale, factors), (by, others) = self._values.factors(value), self._values.factors(other)
        return value == other or (factors == others and self._close(scale, by))
