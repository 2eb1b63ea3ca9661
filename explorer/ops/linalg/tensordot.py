"""Products summed over chosen axes of two tensors, as one matrix product.

Contracted axes go last in a and first in b; merged into one axis each, they make it a product of two matrices.
"""

from __future__ import annotations

import math
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, as_operands
from explorer.core.policy import Items
from explorer.core.registry import public
from explorer.core.types.tensor_type import normalize_axis, whole
from explorer.ops.base import reshape
from explorer.ops.linalg.matmul import matmul
from explorer.ops.manipulation.reshape import transpose
from explorer.record.reasons import counted_text

__all__ = ["dot", "tensordot"]


@public
def tensordot(a: Any, b: Any, axes: Any = 2, *, policies: Items = ()) -> Expr:
    """Sum products over ``axes``: the last k of a with the first k of b for a number k, or a pair of axis lists.

    The result has a's other axes, then b's (MetaNN: Dot). Raises OperandError for contracted axes of different sizes.

    >>> ex.tensordot(np.ones((2, 3, 4)), np.ones((3, 4, 5)), 2).shape
    (2, 5)
    """
    a, b = as_operands((a, b))
    of_a, of_b = _paired(a, b, axes)
    sizes = tuple([a.shape[axis] for axis in of_a])
    if sizes != tuple([b.shape[axis] for axis in of_b]):
        raise OperandError(
            f"tensordot of {a.type!r} and {b.type!r}, over the axes {of_a} of the first, {of_b} of the second",
            rule=f"contracted axes must have equal sizes, these have {sizes} "
            f"and {tuple([b.shape[axis] for axis in of_b])}",
            fix="choose the axes: ex.tensordot(a, b, axes=((…), (…))), or transpose an operand",
        )
    rest_a = tuple([axis for axis in range(a.ndim) if axis not in of_a])
    rest_b = tuple([axis for axis in range(b.ndim) if axis not in of_b])
    inner, shape_a = math.prod(sizes), tuple([a.shape[axis] for axis in rest_a])
    shape_b = tuple([b.shape[axis] for axis in rest_b])
    left = reshape(_ordered(a, rest_a + of_a), (math.prod(shape_a), inner))
    right = reshape(_ordered(b, of_b + rest_b), (inner, math.prod(shape_b)))
    return reshape(matmul(left, right, policies=policies), shape_a + shape_b)


@public
def dot(a: Any, b: Any, *, policies: Items = ()) -> Expr:
    """Sum products over a's last axis and b's second last, or its only one, as NumPy does; a scalar multiplies.

    >>> ex.evaluate(ex.dot(np.array([1, 2, 3]), np.array([4, 5, 6])))
    array(32)
    """
    a, b = as_operands((a, b))
    if not a.ndim or not b.ndim:
        product: Expr = a * b
        return product
    return tensordot(a, b, ((-1,), (-2 if b.ndim > 1 else 0,)), policies=policies)


def _ordered(x: Expr, axes: tuple[int, ...]) -> Expr:
    return x if axes == tuple(range(x.ndim)) else transpose(x, axes)


def _paired(a: Expr, b: Expr, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the contracted axes of each operand, in matching order."""
    if not isinstance(axes, (tuple, list)):
        count = whole(axes, "tensordot: axes")
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise OperandError(
                f"tensordot: {counted_text(count, 'axis', 'axes')} of {a.type!r} and {b.type!r}",
                rule=f"the number of axes must lie in 0 … {min(a.ndim, b.ndim)}",
                fix="axes=1 contracts the last axis of one with the first of the other",
            )
        return tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    if len(axes) != 2:
        raise OperandError(
            f"tensordot: axes {axes!r}",
            rule="axes must be a number, or a pair of axis lists, one for each operand",
            fix="axes=1 for a matrix product; axes=([1], [0]) says the same by axis",
        )
    contracted = []
    for x, operand_axes in zip((a, b), axes, strict=True):
        listed = tuple(operand_axes) if isinstance(operand_axes, (tuple, list)) else (operand_axes,)
        placed = tuple([normalize_axis(axis, x.ndim, "tensordot") for axis in listed])
        if len(set(placed)) != len(placed):
            raise OperandError(
                f"tensordot: axes {operand_axes!r} of {x.type!r}",
                rule="each axis must be contracted at most once",
                fix="name each axis once; −1 is the last one",
            )
        contracted.append(placed)
    if len(contracted[0]) != len(contracted[1]):
        raise OperandError(
            f"tensordot: axes {axes!r}",
            rule="both operands must have equally many contracted axes",
            fix="name as many axes of one operand as of the other: axes=([0, 1], [0, 1])",
        )
    return contracted[0], contracted[1]
