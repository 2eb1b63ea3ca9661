"""Search in sorted boundaries, membership in a set, and counts of integers."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_constant
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.signature import Unused
from explorer.ops.base import cast
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.gather import TakeAlong, take
from explorer.ops.manipulation.put import add_along_axis
from explorer.ops.manipulation.reshape import expand_dims, reshape
from explorer.ops.reduction.reduce import any


@file_operator("aten::searchsorted", "torch.searchsorted")
def searchsorted(
    sorted_sequence: Expr,
    input: Expr,
    out_int32: bool = False,
    right: bool = False,
    side: Literal["left", "right"] | None = None,
    sorter: Expr | None = None,
) -> Expr:
    """Return the positions at which elements can be inserted into sorted rows.

    An element is inserted before equal elements, or after them if ``right`` is True.
    """
    rows = sorted_sequence
    if right and side == "left":
        raise OperandError(f"side={side!r}, right={right}", rule="side must not be left if right is True")
    if rows.ndim != 1 and (not rows.ndim or rows.shape[:-1] != input.shape[:-1]):
        raise OperandError(
            f"elements {input.type} among {rows.type}",
            rule="there must be one sorted row, or one for each row of elements",
        )
    if sorter is not None:
        if sorter.shape != rows.shape:
            raise OperandError(f"sorter is {sorter.type}", rule=f"sorter must have the shape {rows.shape}")
        rows = TakeAlong(rows.ndim - 1)(rows, sorter)
    return _positions(rows, input, right or side == "right", out_int32)


@file_operator("aten::bucketize", "torch.bucketize")
def bucketize(input: Expr, boundaries: Expr, out_int32: bool = False, right: bool = False) -> Expr:
    """Return the positions at which elements can be inserted into sorted boundaries.

    An element is inserted before equal boundaries, or after them if ``right`` is True.
    """
    if boundaries.ndim != 1:
        raise OperandError(f"boundaries {boundaries.type}", rule="the boundaries must be one sorted row")
    return _positions(boundaries, input, right, out_int32)


def _positions(rows: Expr, elements: Expr, right: bool, out_int32: bool) -> Expr:
    """Return the number of boundaries in ``rows`` below each element; NaN is above all numbers.

    If ``right`` is True, boundaries equal to the element are also counted.
    """
    length, axis = rows.shape[-1], elements.ndim - 1
    position = full(elements.shape, 0, np.int64)
    # Binary search: step lengths are halved, and a step is taken if it ends at a boundary below the element.
    for bit in reversed(range(length.bit_length())):
        reached = position + 2**bit
        index = where(reached > length, length, reached) - 1
        boundary = take(rows, index, 0) if rows.ndim == 1 else TakeAlong(axis)(rows, index)
        # negated, since comparisons with NaN are false
        is_below = ~((boundary > elements) if right else (boundary >= elements))
        position = where((reached <= length) & is_below, reached, position)
    return cast(position, np.dtype(np.int32 if out_int32 else np.int64))


@file_operator("aten::isin", "torch.isin")
def isin(elements: Expr, test_elements: Expr, assume_unique: Unused, invert: bool = False) -> Expr:
    """Return whether each element is in ``test_elements``; ``invert`` negates the results."""
    is_member = any(expand_dims(elements, elements.ndim) == reshape(test_elements, (test_elements.size,)), -1)
    return ~is_member if invert else is_member


@file_operator("aten::bincount")
def bincount(op: OperatorContext, input: Expr, weights: None = None, minlength: int = 0) -> Expr:
    """Count the occurrences of each integer from 0 to the maximum."""
    if input.ndim != 1 or input.dtype.kind not in "iu" or minlength < 0:
        raise OperandError(
            f"an operand {input.type}, minlength={minlength}",
            rule="the operand must be a vector of integers, and minlength must be 0 or more",
        )
    ends = op.ask("the largest number", [input], _ends, input.size)
    assert isinstance(ends, tuple)
    if ends[0] < 0:
        raise OperandError(f"the number {ends[0]}", rule="the integers must be 0 or more")
    bins = max(ends[1] + 1, minlength)
    claim_constant("bins", bins)
    return add_along_axis(np.zeros(bins, np.int64), cast(input, np.dtype(np.int64)), 1, 0)


def _ends(arrays: Any) -> tuple[int, int]:
    """Return the minimum and maximum, or 0 and −1 for an empty array."""
    (x,) = arrays
    return (int(x.min()), int(x.max())) if x.size else (0, -1)
