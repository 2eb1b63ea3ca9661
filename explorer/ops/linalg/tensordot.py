"""Tensor products that sum over given axes, recorded as one matrix product.

The contracted axes are moved to the end of a and to the front of b, and merged into one axis in each operand.
"""

from __future__ import annotations

import math
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, as_operands
from explorer.core.policy import Items
from explorer.core.registry import public
from explorer.core.types.tensor_type import as_integer, normalize_axis
from explorer.ops.base import reshape
from explorer.ops.linalg.matmul import matmul
from explorer.ops.manipulation.reshape import transpose
from explorer.record.reasons import counted_text

__all__ = ["dot", "tensordot"]


@public
def tensordot(a: Any, b: Any, axes: Any = 2, *, policies: Items = ()) -> Expr:
    """Sum products over ``axes``.

    ``axes`` is a number k, for the last k axes of a and the first k axes of b, or a pair of lists of axes. The result
    has the other axes of a, followed by the other axes of b (MetaNN: Dot). Raises OperandError if the contracted axes
    have different sizes.

    >>> ex.tensordot(np.ones((2, 3, 4)), np.ones((3, 4, 5)), 2).shape
    (2, 5)
    """
    a, b = as_operands((a, b))
    axes_a, axes_b = _contracted_axes(a, b, axes)
    sizes = tuple([a.shape[axis] for axis in axes_a])
    if sizes != tuple([b.shape[axis] for axis in axes_b]):
        raise OperandError(
            f"tensordot of {a.type!r} and {b.type!r} over the axes {axes_a} of the first, {axes_b} of the second",
            rule=f"contracted axes must have equal sizes, not {sizes} and {tuple([b.shape[axis] for axis in axes_b])}",
            fix="specify the axes, ex.tensordot(a, b, axes=((…), (…))), or transpose an operand",
        )
    rest_a = tuple([axis for axis in range(a.ndim) if axis not in axes_a])
    rest_b = tuple([axis for axis in range(b.ndim) if axis not in axes_b])
    inner, shape_a = math.prod(sizes), tuple([a.shape[axis] for axis in rest_a])
    shape_b = tuple([b.shape[axis] for axis in rest_b])
    left = reshape(_transposed(a, rest_a + axes_a), (math.prod(shape_a), inner))
    right = reshape(_transposed(b, axes_b + rest_b), (inner, math.prod(shape_b)))
    return reshape(matmul(left, right, policies=policies), shape_a + shape_b)


@public
def dot(a: Any, b: Any, *, policies: Items = ()) -> Expr:
    """Sum products over the last axis of a and the second-last (or only) axis of b, as in NumPy.

    Scalars are multiplied.

    >>> ex.evaluate(ex.dot(np.array([1, 2, 3]), np.array([4, 5, 6])))
    array(32)
    """
    a, b = as_operands((a, b))
    if not a.ndim or not b.ndim:
        product: Expr = a * b
        return product
    return tensordot(a, b, ((-1,), (-2 if b.ndim > 1 else 0,)), policies=policies)


def _transposed(x: Expr, axes: tuple[int, ...]) -> Expr:
    return x if axes == tuple(range(x.ndim)) else transpose(x, axes)


def _contracted_axes(a: Expr, b: Expr, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if not isinstance(axes, (tuple, list)):
        count = as_integer(axes, "tensordot: axes")
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise OperandError(
                f"tensordot: {counted_text(count, 'axis', 'axes')} of {a.type!r} and {b.type!r}",
                rule=f"the number of axes must be in 0 … {min(a.ndim, b.ndim)}",
                fix="axes=1 contracts the last axis of a with the first axis of b",
            )
        return tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    if len(axes) != 2:
        raise OperandError(
            f"tensordot: axes {axes!r}",
            rule="axes must be a number, or a pair of axis lists, one for each operand",
            fix="axes=1, or equivalently axes=([1], [0]), for a matrix product",
        )
    contracted = []
    for x, operand_axes in zip((a, b), axes, strict=True):
        listed = tuple(operand_axes) if isinstance(operand_axes, (tuple, list)) else (operand_axes,)
        normalized = tuple([normalize_axis(axis, x.ndim, "tensordot") for axis in listed])
        if len(set(normalized)) != len(normalized):
            raise OperandError(
                f"tensordot: axes {operand_axes!r} of {x.type!r}",
                rule="each axis must be contracted at most once",
                fix="list each axis once; −1 is the last axis",
            )
        contracted.append(normalized)
    if len(contracted[0]) != len(contracted[1]):
        raise OperandError(
            f"tensordot: axes {axes!r}",
            rule="both operands must have the same number of contracted axes",
            fix="list as many axes for a as for b, such as axes=([0, 1], [0, 1])",
        )
    return contracted[0], contracted[1]
