"""Signatures of values: the names of their parts, by which a value that cannot be a formula is passed over.

Matching a formula tries assignments of its terms; a signature is a set that is computed once a value, and one test of
inclusion rules out nearly every pair of a value and a formula.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.record.compositions.algebra import Algebra, Applied, Atom, Product, Reduction, Sum

Signature = frozenset[tuple[str, float]]
"""names of a value's parts with their exponents"""


def signature(algebra: Algebra, value: int) -> Signature:
    """Return the signature of a value; that of a formula is part of the signatures of all values that it matches."""
    return frozenset(_parts(algebra, value))


def _parts(algebra: Algebra, value: int) -> Iterator[tuple[str, float]]:
    terms = algebra.terms
    term = terms[value]
    if isinstance(term, Product):
        for factor, exponent in term.factors:
            inner = terms[factor]
            if isinstance(inner, Sum):
                yield "+", exponent
                if _has_number(algebra, inner):
                    yield "+number", exponent
                for each, _ in inner.terms:
                    if name := _name(algebra, each):
                        yield f"+{name}", exponent
            elif name := _name(algebra, factor):
                yield name, exponent
    elif isinstance(term, Sum):
        if _has_number(algebra, term):
            yield "number", 1.0
        for each, _ in term.terms:
            if name := _name(algebra, each):
                yield name, 1.0
    elif isinstance(term, Applied):
        yield _name(algebra, value), 1.0
        if name := _name(algebra, term.operand):
            yield f"of {name}", 1.0


def _has_number(algebra: Algebra, total: Sum) -> bool:
    """Whether a sum has a constant, which ``eps`` of a formula is, too, unless its ``x`` can take the constant up."""
    names = {term.name for term in [algebra.terms[each] for each, _ in total.terms] if isinstance(term, Atom)}
    return "x" not in names and (total.constant != 0 or "eps" in names)


def _name(algebra: Algebra, value: int) -> str:
    term = algebra.terms[value]
    return term.function if isinstance(term, (Applied, Reduction)) else ""
