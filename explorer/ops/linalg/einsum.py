"""Einstein summation: products of tensors with named axes, recorded as matrix products.

Each letter of a pair of operands is shared and kept (batch), shared and summed (inner), or occurs in only one operand.
The operands are transposed and reshaped for ``matmul``, which provides gradients, batching and tiles. Three or more
operands are combined in the given order; opt_einsum can find a cheaper one. (ONNX: Einsum; PNNX: torch.einsum.)
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

_FIRST_ELLIPSIS_LETTER = 0x4E00
"""first letter for the axes of an ellipsis; equations cannot contain this and the following letters"""


class _Named(NamedTuple):
    """Tensor with one letter for each axis."""

    x: Expr
    letters: str


@public
@composition
def einsum(equation: str, *operands: Any, policies: Items = ()) -> Expr:
    """Sum products over named axes: ``einsum("bij,bjk->bik", a, b)`` sums over letters that are not in the result.

    If the equation has no ``->``, the result's letters are the letters that occur once, in alphabetical order. An
    ellipsis represents all axes without letters. A letter that occurs twice in one operand selects the diagonal. Axes
    of size 1 are broadcast. Operands are combined from left to right, with one matrix product for each pair. Raises
    OperandError if the equation does not fit the operands.

    >>> a, b = ex.tensor(np.ones((5, 2, 3))), ex.tensor(np.ones((3, 4)))
    >>> ex.einsum("bij,jk->bik", a, b).shape, float(ex.einsum("ii->", np.eye(3)))
    ((5, 2, 4), 3.0)
    """
    expressions = as_operands(operands)
    dtypes = {x.dtype for x in expressions}
    if len(dtypes) > 1:  # convert before operands are summed, as NumPy does
        # NumPy cannot promote bfloat16 and integers
        common = np.result_type(*[accumulator_dtype(dtype) if dtype.kind == "V" else dtype for dtype in dtypes])
        expressions = tuple([cast(x, common) for x in expressions])
    return _combine(equation, *expressions)


@rounded_once
def _combine(equation: str, *expressions: Expr) -> Expr:
    """Combine operands of equal dtype from left to right."""
    terms, result = _parse(equation, expressions)
    sizes: dict[str, int] = {}
    for x, letters in terms:
        for letter, size in zip(letters, x.shape, strict=True):
            if sizes.setdefault(letter, size) != size and size != 1:
                if sizes[letter] != 1:
                    raise OperandError(
                        f"einsum: {equation!r} with {', '.join(repr(x.type) for x in expressions)}",
                        rule=f"axes with equal letters must have equal sizes; {letter} has {sizes[letter]} and {size}",
                        fix="use another letter for one of the axes, or transpose the operand",
                    )
                sizes[letter] = size
    terms = [_diagonal(_without_broadcast_axes(term, sizes)) for term in terms]
    combined = terms[0]
    for index, term in enumerate(terms[1:], 2):
        # letters that occur in later operands or in the result must not be summed yet
        needed = set(result).union(*[letters for _, letters in terms[index:]])
        combined = _product(combined, term, needed, sizes)
    combined = _sum_unneeded(combined, set(result))
    return transpose(combined.x, tuple([combined.letters.index(letter) for letter in result]))


def _product(a: _Named, b: _Named, needed: set[str], sizes: dict[str, int]) -> _Named:
    """Multiply two tensors and sum the product over shared axes whose letters are not ``needed`` later."""
    a, b = _sum_unneeded(a, needed | set(b.letters)), _sum_unneeded(b, needed | set(a.letters))
    shared = [letter for letter in a.letters if letter in b.letters]
    batch, inner = ("".join(filter(lambda c: (c in needed) == kept, shared)) for kept in (True, False))
    left, right = ("".join([c for c in term.letters if c not in shared]) for term in (a, b))

    def ordered(term: _Named, *groups: str) -> Expr:
        order = "".join(groups)
        axes = tuple([term.letters.index(letter) for letter in order])
        transposed = term.x if axes == tuple(range(len(axes))) else transpose(term.x, axes)
        merged_sizes = [math.prod([sizes[c] for c in group]) for group in groups[1:]]
        return reshape(transposed, (*[sizes[c] for c in groups[0]], *merged_sizes))

    if inner:
        y = matmul(ordered(a, batch, left, inner), ordered(b, batch, inner, right))
    else:
        # no axes are summed, so the product is elementwise with broadcasting
        y = ordered(a, batch, left, "") * ordered(b, batch, "", right)
    letters = batch + left + right
    return _Named(reshape(y, tuple([sizes[c] for c in letters])), letters)


def _sum_unneeded(term: _Named, needed: set[str]) -> _Named:
    axes = tuple([axis for axis, letter in enumerate(term.letters) if letter not in needed])
    if not axes:
        return term
    # ``sum`` widens narrow integers, but products do not. Cast back, so that the result's dtype does not depend on
    # which axes are summed here.
    return _Named(
        cast(sum(term.x, axes), term.x.dtype), "".join([letter for letter in term.letters if letter in needed])
    )


def _without_broadcast_axes(term: _Named, sizes: dict[str, int]) -> _Named:
    """Remove axes of size 1 whose letter has a larger size in another operand, because the product broadcasts them."""
    kept = [axis for axis, letter in enumerate(term.letters) if term.x.shape[axis] == sizes[letter]]
    shape = tuple([term.x.shape[axis] for axis in kept])
    return _Named(reshape(term.x, shape), "".join([term.letters[axis] for axis in kept]))


def _diagonal(term: _Named) -> _Named:
    """Replace axes with the same letter by their diagonal; the result has unique letters."""
    x, letters = term
    while len(set(letters)) < len(letters):
        repeated = next(letter for letter in letters if letters.count(letter) > 1)
        first, second = [axis for axis, letter in enumerate(letters) if letter == repeated][:2]
        rest = [axis for axis in range(x.ndim) if axis not in (first, second)]
        size, outer = x.shape[first], tuple([x.shape[axis] for axis in rest])
        # if n × n elements are flattened, every (n + 1)-th is on the diagonal
        square = reshape(transpose(x, (*rest, first, second)), (*outer, size * size))
        x = part_of(square, (..., slice(None, None, size + 1)))
        letters = "".join([letters[axis] for axis in rest]) + repeated
    return _Named(x, letters)


def _parse(equation: str, operands: tuple[Expr, ...]) -> tuple[list[_Named], str]:
    """Return the operands with their letters, and the result's letters; ellipses are aligned at their last axes."""
    text = equation.replace(" ", "") if isinstance(equation, str) else ""
    inputs, arrow, result = text.partition("->")
    parts = inputs.split(",")
    missing = [x.ndim - len(part.replace("...", "")) for part, x in zip(parts, operands, strict=False)]
    ellipsis_rank = max([count for part, count in zip(parts, missing, strict=False) if "..." in part], default=0)
    names = "".join(
        [chr(code) for code in range(_FIRST_ELLIPSIS_LETTER, _FIRST_ELLIPSIS_LETTER + max(ellipsis_rank, 0))]
    )
    if not arrow:
        counts = Counter(inputs.replace(",", "").replace(".", ""))
        single = sorted([letter for letter, count in counts.items() if count == 1])
        result = "..." * ("..." in inputs) + "".join(single)
    named = [
        part.replace("...", names[len(names) - count :] if count > 0 else "", 1)
        for part, count in zip(parts, missing, strict=False)
    ]
    result_text, result = result, result.replace("...", names, 1)
    rule = ""
    if not all(all(c.isascii() and c.isalpha() for c in part.replace("...", "", 1)) for part in (*parts, result_text)):
        rule = "an equation must have letters or ... for axes, commas between operands, and -> before the result"
    elif len(parts) != len(operands) or [len(letters) for letters in named] != [x.ndim for x in operands]:
        rule = "there must be one letter for each axis of each operand"
    elif len(set(result)) != len(result) or not set(result) <= set("".join(named)):
        rule = "each letter of the result must be unique and occur in an operand"
    if rule:
        shapes = ", ".join(repr(x.type) for x in operands) or "nothing"
        raise OperandError(
            f"einsum: {equation!r} with {shapes}",
            rule=rule,
            fix='use "ij,jk->ik" for a matrix product, "...ij,...jk->...ik" for a batch of them',
        )
    return [_Named(x, letters) for x, letters in zip(operands, named, strict=True)], result
