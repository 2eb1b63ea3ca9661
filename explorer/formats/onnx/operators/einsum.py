"""Einstein's sums: products of operands whose axes are letters, summed over those that the result has not."""

from __future__ import annotations

from collections import Counter
from math import prod

from explorer.core.errors import OperandError
from explorer.core.expr import Expr
from explorer.formats.onnx.operators.table import operator
from explorer.formats.onnx.operators.values import members
from explorer.net.context import OperatorContext
from explorer.ops.base import reshape
from explorer.ops.movement import transpose
from explorer.ops.reduce import sum

_ELLIPSIS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@operator("Einsum")
def einsum(op: OperatorContext) -> Expr:
    """The sum that ``equation`` writes; pairs of operands become matrix products."""
    operands = members(op, "Inputs")
    terms, result = _parsed(str(op.argument("equation")), operands)
    pairs = [_diagonal(x, term) for x, term in zip(operands, terms, strict=True)]
    while len(pairs) > 1:
        (a, left), (b, right), *rest = pairs
        kept = set(result).union(*[term for _, term in rest])
        pairs = [_product(a, left, b, right, kept), *rest]
    ((y, term),) = pairs
    y, term = _summed(y, term, set(result))
    return transpose(y, tuple([term.index(letter) for letter in result]))


def _parsed(equation: str, operands: tuple[Expr, ...]) -> tuple[list[str], str]:
    """The letters of each operand and of the result; an ellipsis becomes letters of its own, aligned at the last."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    extra = max(
        [x.ndim - len(t.replace("...", "")) for x, t in zip(operands, terms, strict=False) if "..." in t] or [0]
    )
    letters = "".join(letter for letter in _ELLIPSIS if letter not in equation)[: max(extra, 0)]
    if not arrow:
        counts = Counter("".join(terms).replace(".", ""))
        right = "..." * ("..." in left) + "".join(sorted(letter for letter, n in counts.items() if n == 1))
    found = []
    for x, term in zip(operands, terms, strict=False):
        size = x.ndim - len(term.replace("...", ""))
        found.append(term.replace("...", letters[len(letters) - size :] if size > 0 else ""))
    result = right.replace("...", letters)
    known = set("".join(found))
    if (
        len(terms) != len(operands)
        or any(len(term) != x.ndim or not term.isalpha() for x, term in zip(operands, found, strict=False) if term)
        or any(x.ndim for x, term in zip(operands, found, strict=False) if not term)
        or len(set(result)) != len(result)
        or not set(result) <= known
    ):
        shapes = ", ".join(str(x.type) for x in operands)
        raise OperandError(
            f"equation={equation!r} for {shapes}",
            rule="Einsum: each axis of an operand has a letter, and each letter of the result stands once and in one",
        )
    return found, result


def _diagonal(x: Expr, term: str) -> tuple[Expr, str]:
    repeated = next((letter for letter in term if term.count(letter) > 1), "")
    if repeated:
        raise OperandError(
            f"the operand {term} names {repeated} twice", rule="Einsum is computed without diagonals of operands"
        )
    return x, term


def _summed(x: Expr, term: str, kept: set[str]) -> tuple[Expr, str]:
    """x summed over the letters that nobody asks for."""
    axes = tuple([axis for axis, letter in enumerate(term) if letter not in kept])
    return (sum(x, axes) if axes else x), "".join(letter for letter in term if letter in kept)


def _product(a: Expr, left: str, b: Expr, right: str, kept: set[str]) -> tuple[Expr, str]:
    """One matrix product: shared letters that are kept are its batch, shared ones that are not are summed."""
    a, left = _summed(a, left, kept | set(right))
    b, right = _summed(b, right, kept | set(left))
    batch = [letter for letter in left if letter in right and letter in kept]
    inner = [letter for letter in left if letter in right and letter not in kept]
    rows = [letter for letter in left if letter not in right]
    columns = [letter for letter in right if letter not in left]
    sizes = dict.fromkeys(left + right, 1)
    for x, term in ((a, left), (b, right)):
        for letter, size in zip(term, x.shape, strict=True):
            if size != 1 and sizes[letter] not in (1, size):
                raise OperandError(f"letter {letter} is {sizes[letter]} and {size}", rule="Einsum: one size a letter")
            sizes[letter] = max(size, sizes[letter])
    if any(x.shape[term.index(i)] != sizes[i] for x, term in ((a, left), (b, right)) for i in inner):
        raise OperandError(f"{a.type} and {b.type}", rule="Einsum: summed letters have one size in both operands")

    def arranged(x: Expr, term: str, order: tuple[list[str], list[str]]) -> Expr:
        letters = [*batch, *order[0], *order[1]]
        moved = transpose(x, tuple([term.index(letter) for letter in letters]))
        front = moved.shape[: len(batch)]
        return reshape(moved, (*front, *[prod(sizes[letter] for letter in part) for part in order]))

    y = arranged(a, left, (rows, inner)) @ arranged(b, right, (inner, columns))
    shape = [sizes[letter] for letter in (*batch, *rows, *columns)]
    return reshape(y, tuple(shape)), "".join((*batch, *rows, *columns))
