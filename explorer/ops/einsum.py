"""Einstein's sums: products of tensors by named axes, as matrix products."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

from explorer.core.errors import OperandError
from explorer.core.expr import Expr
from explorer.core.operation import as_operands
from explorer.core.registry import public
from explorer.ops.base import reshape
from explorer.ops.linalg import matmul
from explorer.ops.movement import transpose
from explorer.ops.reduce import sum


class _Named(NamedTuple):
    """A tensor and a letter for each of its axes."""

    x: Expr
    letters: str


@public
def einsum(equation: str, *operands: Any) -> Expr:
    """Σ of products by named axes: ``einsum("bij,bjk->bik", a, b)``; a letter that the result lacks is summed over.

    Without ``->`` the result has the letters that occur once, in the alphabet's order. Operands are combined from left
    to right, each pair as one matrix product.
    """
    given = as_operands(operands)
    terms, result = _parsed(equation, given)
    sizes: dict[str, int] = {}
    for x, letters in terms:
        for letter, size in zip(letters, x.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise OperandError(
                    f"einsum: {equation!r} with {', '.join(repr(x.type) for x in given)}",
                    rule=f"an axis has one size, and {letter} has {sizes[letter]} and {size}",
                )
    combined = terms[0]
    for index, term in enumerate(terms[1:], 2):
        needed = set(result).union(*[letters for _, letters in terms[index:]])
        combined = _product(combined, term, needed, sizes)
    combined = _summed(combined, set(result))
    return transpose(combined.x, tuple([combined.letters.index(letter) for letter in result]))


def _product(a: _Named, b: _Named, needed: set[str], sizes: dict[str, int]) -> _Named:
    """The product of two tensors, summed over what both have and nothing else needs."""
    a, b = _summed(a, needed | set(b.letters)), _summed(b, needed | set(a.letters))
    shared = [letter for letter in a.letters if letter in b.letters]
    batch, inner = ("".join(filter(lambda c: (c in needed) == kept, shared)) for kept in (True, False))
    left, right = ("".join([c for c in term.letters if c not in shared]) for term in (a, b))

    def ordered(term: _Named, *groups: str) -> Expr:
        order = "".join(groups)
        axes = tuple([term.letters.index(letter) for letter in order])
        moved = term.x if axes == tuple(range(len(axes))) else transpose(term.x, axes)
        folded = [math.prod([sizes[c] for c in group]) for group in groups[1:]]
        return reshape(moved, (*[sizes[c] for c in groups[0]], *folded))

    if inner:
        y = matmul(ordered(a, batch, left, inner), ordered(b, batch, inner, right))
    else:
        y = ordered(a, batch, left, "") * ordered(b, batch, "", right)
    letters = batch + left + right
    return _Named(reshape(y, tuple([sizes[c] for c in letters])), letters)


def _summed(term: _Named, needed: set[str]) -> _Named:
    """A tensor without the axes that nothing needs."""
    axes = tuple([axis for axis, letter in enumerate(term.letters) if letter not in needed])
    if not axes:
        return term
    return _Named(sum(term.x, axes), "".join([letter for letter in term.letters if letter in needed]))


def _parsed(equation: str, operands: tuple[Expr, ...]) -> tuple[list[_Named], str]:
    """Each operand with its letters, and the result's letters."""
    text = equation.replace(" ", "") if isinstance(equation, str) else ""
    entering, arrow, result = text.partition("->")
    parts = entering.split(",")
    counts = Counter("".join(parts))
    if not arrow:
        result = "".join(sorted([letter for letter, count in counts.items() if count == 1]))
    rule = ""
    if not text or not all(part.isalpha() for part in parts if part) or (result and not result.isalpha()):
        rule = "an equation has letters for axes, commas between operands, and -> before the result; no ellipsis"
    elif [len(part) for part in parts] != [x.ndim for x in operands]:
        rule = "there is a letter for each axis of each operand"
    elif any(len(set(part)) != len(part) for part in (*parts, result)):
        rule = "a letter occurs once in an operand and in the result: diagonals are not taken"
    elif not set(result) <= set(counts):
        rule = "the result has letters of the operands"
    if rule:
        shapes = ", ".join(repr(x.type) for x in operands) or "nothing"
        raise OperandError(f"einsum: {equation!r} with {shapes}", rule=rule)
    return [_Named(x, letters) for x, letters in zip(operands, parts, strict=True)], result
