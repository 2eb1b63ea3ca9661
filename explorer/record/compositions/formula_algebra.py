"""Algebra of formulas, in which equal formulas have equal indices.

Products and sums are flattened and unordered, constants are combined, and a quotient is a product with a negative
exponent. Thus ``x * 0.5``, ``0.5 * x`` and ``x / 2`` are one value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

_MAX_PARTS = 8
"""maximum number of factors or terms of an expanded product or sum"""
_MAX_LOG = 100.0
"""maximum absolute logarithm of a computed power"""


@dataclass(frozen=True, slots=True)
class Number:
    """Constant number."""

    value: float


@dataclass(frozen=True, slots=True)
class Atom:
    """Value without a formula: a node, or a variable of a formula."""

    name: int | str


@dataclass(frozen=True, slots=True)
class Applied:
    """Function applied to a single value."""

    function: str
    operand: int


@dataclass(frozen=True, slots=True)
class Reduction:
    """Reduction along axes.

    If ``keeps`` is True, reduced axes are kept, so the result can be broadcast to the operand.
    """

    function: str
    axes: tuple[int, ...]
    keeps: bool
    operand: int


@dataclass(frozen=True, slots=True)
class Product:
    """Product of a coefficient and powers of values; ``factors`` contains (value, exponent)."""

    coefficient: float
    factors: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """Sum of a constant and multiples of values; the terms are (value, coefficient)."""

    constant: float
    terms: tuple[tuple[int, float], ...]


Term: TypeAlias = Number | Atom | Applied | Reduction | Product | Sum


class Algebra:
    """Values and their formulas. A value is an index into ``terms``."""

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self._index_of: dict[Term, int] = {}

    def enter(self, term: Term) -> int:
        """Return the index of a formula; the formula is added if it is new."""
        index = self._index_of.get(term)
        if index is None:
            index = self._index_of[term] = len(self.terms)
            self.terms.append(term)
        return index

    def factors(self, value: int) -> tuple[float, dict[int, float]]:
        """Return a value as a product: its coefficient, and value → exponent for its factors."""
        term = self.terms[value]
        if isinstance(term, Number):
            return term.value, {}
        return (term.coefficient, dict(term.factors)) if isinstance(term, Product) else (1.0, {value: 1.0})

    def addends(self, value: int) -> tuple[float, dict[int, float]]:
        """Return a value as a sum: its constant, and value → coefficient for its terms."""
        term = self.terms[value]
        if isinstance(term, Number):
            return term.value, {}
        if isinstance(term, Sum):
            return term.constant, dict(term.terms)
        if not isinstance(term, Product):
            return 0.0, {value: 1.0}
        # Without the coefficient, because 3ab and 5ab are multiples of one value.
        base = self.product(1.0, dict(term.factors))
        term_of_base = self.terms[base]
        if isinstance(term_of_base, Sum):  # −(a + b) is −a − b
            scale = term.coefficient
            return term_of_base.constant * scale, {addend: scale * times for addend, times in term_of_base.terms}
        return 0.0, {base: term.coefficient}

    def product(self, coefficient: float, exponents: Mapping[int, float]) -> int:
        """Return the product of ``coefficient`` and powers; ``exponents`` maps values to exponents."""
        powers = sorted([(value, exponent) for value, exponent in exponents.items() if exponent])
        if not powers or not coefficient:
            return self.enter(Number(coefficient))
        if coefficient == 1 and len(powers) == 1 and powers[0][1] == 1:
            return powers[0][0]
        return self.enter(Product(coefficient, tuple(powers)))

    def total(self, constant: float, coefficients: Mapping[int, float]) -> int:
        """Return the sum of ``constant`` and multiples; ``coefficients`` maps values to coefficients."""
        terms = sorted([(value, times) for value, times in coefficients.items() if times])
        if not terms:
            return self.enter(Number(constant))
        if not constant and len(terms) == 1:
            ((value, times),) = terms
            coefficient, powers = self.factors(value)
            return self.product(coefficient * times, powers)
        return self.enter(Sum(constant, tuple(terms)))

    def multiply(self, value: int, other: int) -> int:
        """Return the product of two values."""
        (coefficient, powers), (other_coefficient, other_powers) = self.factors(value), self.factors(other)
        if len(powers) + len(other_powers) > _MAX_PARTS:
            coefficient, powers, other_coefficient, other_powers = 1.0, {value: 1.0}, 1.0, {other: 1.0}
        for factor, exponent in other_powers.items():
            powers[factor] = powers.get(factor, 0.0) + exponent
        return self.product(coefficient * other_coefficient, powers)

    def power(self, value: int, exponent: float) -> int:
        """Return ``value`` to the power ``exponent``. A root of a product is not expanded, since √(x²) is not x."""
        coefficient, powers = self.factors(value)
        if not powers:
            is_real = coefficient > 0 or (coefficient < 0 and exponent.is_integer())
            if is_real and abs(math.log(abs(coefficient)) * exponent) < _MAX_LOG:
                return self.enter(Number(coefficient**exponent))
        elif exponent.is_integer() and abs(exponent * math.log(abs(coefficient))) < _MAX_LOG:
            return self.product(coefficient**exponent, {factor: times * exponent for factor, times in powers.items()})
        # For x and 1 / x, exponents of a single factor are multiplied, regardless of its sign.
        elif coefficient == 1 and [abs(times) for times in powers.values()] == [1]:
            return self.product(1.0, {factor: times * exponent for factor, times in powers.items()})
        return self.product(1.0, {value: exponent})

    def add(self, value: int, other: int, times: float = 1.0) -> int:
        """Return ``value + times * other``."""
        (constant, terms), (other_constant, other_terms) = self.addends(value), self.addends(other)
        if len(terms) + len(other_terms) > _MAX_PARTS:
            constant, terms, other_constant, other_terms = 0.0, {value: 1.0}, 0.0, {other: 1.0}
        for term, coefficient in other_terms.items():
            terms[term] = terms.get(term, 0.0) + times * coefficient
        return self.total(constant + times * other_constant, terms)
