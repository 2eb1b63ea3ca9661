"""Einstein summation: products of tensors by named axes, as matrix products.

Letters are sorted, for each pair of operands, into those of both that stay (batch), those of both that are summed
(inner), and those of one alone: transposed and reshaped into that order, the pair is one matrix product. So gradients,
batching and tiles are those of ``matmul``. Longer equations are not reordered: opt_einsum finds cheaper orders, and a
user can write the pairs in such an order himself. (ONNX: Einsum; PNNX: torch.einsum.)
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, as_operands
from explorer.core.ir.policy_operations import composition
from explorer.core.policy import Items
from explorer.core.registry import public
from explorer.core.types.custom_dtypes import accumulator_dtype
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import cast, reshape
from explorer.ops.linalg.matmul import matmul
from explorer.ops.manipulation.reshape import transpose
from explorer.ops.manipulation.slicing import part_of
from explorer.ops.reduction.reduce import sum

__all__ = ["einsum"]

_HIDDEN = 0x4E00
"""letters for the axes of an ellipsis start here: no equation contains them"""


class _Named(NamedTuple):
    """Tensor with a letter for each of its axes."""

    x: Expr
    letters: str


@public
@composition
def einsum(equation: str, *operands: Any, policies: Items = ()) -> Expr:
    """Sum products by named axes: ``einsum("bij,bjk->bik", a, b)``; letters missing from the result are summed over.

    Without ``->`` the result has the letters that occur once, in alphabetical order. An ellipsis stands for axes
    without letters, a repeated letter in one operand for its diagonal; an axis of size 1 is broadcast. Operands are
    combined from left to right, each pair as one matrix product. Raises OperandError for an equation that does not fit
    the operands.

    >>> a, b = ex.tensor(np.ones((5, 2, 3))), ex.tensor(np.ones((3, 4)))
    >>> ex.einsum("bij,jk->bik", a, b).shape, float(ex.einsum("ii->", np.eye(3)))
    ((5, 2, 4), 3.0)
    """
    expressions = as_operands(operands)
    dtypes = {x.dtype for x in expressions}
    if len(dtypes) > 1:  # converted first, as NumPy does: operands are summed before they are multiplied
        # NumPy has no common dtype of bfloat16 and integers.
        common = np.result_type(*[accumulator_dtype(dtype) if dtype.kind == "V" else dtype for dtype in dtypes])
        expressions = tuple([cast(x, common) for x in expressions])
    return _combined(equation, *expressions)


@rounded_once
def _combined(equation: str, *expressions: Expr) -> Expr:
    """Combine operands of one dtype from left to right."""
    terms, result = _parsed(equation, expressions)
    sizes: dict[str, int] = {}
    for x, letters in terms:
        for letter, size in zip(letters, x.shape, strict=True):
            if sizes.setdefault(letter, size) != size and size != 1:
                if sizes[letter] != 1:
                    raise OperandError(
                        f"einsum: {equation!r} with {', '.join(repr(x.type) for x in expressions)}",
                        rule=f"a letter must stand for one size; {letter} has {sizes[letter]} and {size}",
                        fix="another letter for one of the axes, or transpose the operand",
                    )
                sizes[letter] = size
    terms = [_diagonal(_wide(term, sizes)) for term in terms]
    combined = terms[0]
    for index, term in enumerate(terms[1:], 2):
        # what later operands or the result still name must not be summed yet
        needed = set(result).union(*[letters for _, letters in terms[index:]])
        combined = _product(combined, term, needed, sizes)
    combined = _summed(combined, set(result))
    return transpose(combined.x, tuple([combined.letters.index(letter) for letter in result]))


def _product(a: _Named, b: _Named, needed: set[str], sizes: dict[str, int]) -> _Named:
    """Return the product of two tensors, summed over axes that both have and nothing else needs."""
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
        # nothing is summed: a product of columns and rows, by broadcasting
        y = ordered(a, batch, left, "") * ordered(b, batch, "", right)
    letters = batch + left + right
    return _Named(reshape(y, tuple([sizes[c] for c in letters])), letters)


def _summed(term: _Named, needed: set[str]) -> _Named:
    """Sum a tensor over the axes that nothing needs."""
    axes = tuple([axis for axis, letter in enumerate(term.letters) if letter not in needed])
    if not axes:
        return term
    # sums of short whole numbers are longer ones, products are not: here all are sums of products
    return _Named(
        cast(sum(term.x, axes), term.x.dtype), "".join([letter for letter in term.letters if letter in needed])
    )


def _wide(term: _Named, sizes: dict[str, int]) -> _Named:
    """Drop the axes of size 1 that are longer in other operands: the product broadcasts them."""
    kept = [axis for axis, letter in enumerate(term.letters) if term.x.shape[axis] == sizes[letter]]
    shape = tuple([term.x.shape[axis] for axis in kept])
    return _Named(reshape(term.x, shape), "".join([term.letters[axis] for axis in kept]))


def _diagonal(term: _Named) -> _Named:
    """Return a tensor with each letter once: two axes of one letter are replaced by their diagonal."""
    x, letters = term
    while len(set(letters)) < len(letters):
        twice = next(letter for letter in letters if letters.count(letter) > 1)
        first, second = [axis for axis, letter in enumerate(letters) if letter == twice][:2]
        rest = [axis for axis in range(x.ndim) if axis not in (first, second)]
        size, outer = x.shape[first], tuple([x.shape[axis] for axis in rest])
        # of n × n elements in a row, every (n + 1)-th is on the diagonal: a view, and its gradient is a slice's
        square = reshape(transpose(x, (*rest, first, second)), (*outer, size * size))
        x = part_of(square, (..., slice(None, None, size + 1)))
        letters = "".join([letters[axis] for axis in rest]) + twice
    return _Named(x, letters)


def _parsed(equation: str, operands: tuple[Expr, ...]) -> tuple[list[_Named], str]:
    """Return the operands with their letters, and the result's letters; ellipsis axes are aligned at the last."""
    text = equation.replace(" ", "") if isinstance(equation, str) else ""
    entering, arrow, result = text.partition("->")
    parts = entering.split(",")
    missing = [x.ndim - len(part.replace("...", "")) for part, x in zip(parts, operands, strict=False)]
    hidden = max([count for part, count in zip(parts, missing, strict=False) if "..." in part], default=0)
    names = "".join([chr(place) for place in range(_HIDDEN, _HIDDEN + max(hidden, 0))])
    if not arrow:
        counts = Counter(entering.replace(",", "").replace(".", ""))
        single = sorted([letter for letter, count in counts.items() if count == 1])
        result = "..." * ("..." in entering) + "".join(single)
    named = [
        part.replace("...", names[len(names) - count :] if count > 0 else "", 1)
        for part, count in zip(parts, missing, strict=False)
    ]
    written, result = result, result.replace("...", names, 1)
    rule = ""
    if not all(all(c.isascii() and c.isalpha() for c in part.replace("...", "", 1)) for part in (*parts, written)):
        rule = "an equation has letters for axes, ... for others, commas between operands, and -> before the result"
    elif len(parts) != len(operands) or [len(letters) for letters in named] != [x.ndim for x in operands]:
        rule = "there is a letter for each axis of each operand"
    elif len(set(result)) != len(result) or not set(result) <= set("".join(named)):
        rule = "each letter of the result stands there once, and in an operand"
    if rule:
        shapes = ", ".join(repr(x.type) for x in operands) or "nothing"
        raise OperandError(
            f"einsum: {equation!r} with {shapes}",
            rule=rule,
            fix='a matrix product is "ij,jk->ik", a batch of them "...ij,...jk->...ik"',
        )
    return [_Named(x, letters) for x, letters in zip(operands, named, strict=True)], result
