"""Places of elements among sorted boundaries, and whether elements are in a set."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.pnnx.operators.base.arguments import flag, tensor_or_none, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.schema import Count
from explorer.ops.base import cast
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.gather import TakeAlong, take
from explorer.ops.manipulation.reshape import expand_dims, reshape
from explorer.ops.reduction.reduce import any


@file_operator("aten::searchsorted", "torch.searchsorted", operands=Count(2, 6))
def searchsorted(op: OperatorContext) -> Expr:
    """The places where elements would be inserted into sorted rows: before equal ones, or behind them (right)."""
    rows, elements = op.tensor(0, "sorted_sequence"), op.tensor(1, "input")
    side, order = value(op, 4, "side", None), tensor_or_none(op, 5, "sorter")
    right = flag(op, 3, "right", False)
    if side not in (None, "left", "right") or (right and side == "left"):
        raise OperandError(
            f"side={side!r}, right={right}", rule=f"{op.definition.type}: side must be left or right, as right says"
        )
    if rows.ndim != 1 and (not rows.ndim or rows.shape[:-1] != elements.shape[:-1]):
        raise OperandError(
            f"elements {elements.type} among {rows.type}",
            rule=f"{op.definition.type}: there must be one sorted row, or one for each row of elements",
        )
    if order is not None:
        if order.shape != rows.shape:
            raise OperandError(
                f"sorter is {order.type}", rule=f"{op.definition.type}: sorter must have the shape {rows.shape}"
            )
        rows = TakeAlong(rows.ndim - 1)(rows, order)
    return _places(op, rows, elements, right or side == "right")


@file_operator("aten::bucketize", "torch.bucketize", operands=Count(2, 4))
def bucketize(op: OperatorContext) -> Expr:
    """The places of elements among boundaries: before equal ones, or behind them (right)."""
    elements, boundaries = op.tensor(0, "input"), op.tensor(1, "boundaries")
    if boundaries.ndim != 1:
        raise OperandError(
            f"boundaries {boundaries.type}", rule=f"{op.definition.type}: the boundaries must be one sorted row"
        )
    return _places(op, boundaries, elements, flag(op, 3, "right", False))


def _places(op: OperatorContext, rows: Expr, elements: Expr, right: bool) -> Expr:
    """Return the number of boundaries below each element, or not above it; NaN is above all numbers."""
    length, axis = rows.shape[-1], elements.ndim - 1
    dtype = np.dtype(np.int32 if flag(op, 2, "out_int32", False) else np.int64)
    place = full(elements.shape, 0, np.int64)
    # a binary search: each step is half of the one before, and is taken where the boundary that it reaches allows it
    for bit in reversed(range(length.bit_length())):
        reached = place + 2**bit
        number = where(reached > length, length, reached) - 1
        boundary = take(rows, number, 0) if rows.ndim == 1 else TakeAlong(axis)(rows, number)
        # the negation, since comparisons with NaN are false
        is_below = ~((boundary > elements) if right else (boundary >= elements))
        place = where((reached <= length) & is_below, reached, place)
    return cast(place, dtype)


@file_operator("aten::isin", "torch.isin", operands=Count(2, 4), ignored=("assume_unique", 2))
def isin(op: OperatorContext) -> Expr:
    """Whether each element is one of a set, or is not (invert)."""
    elements, members = op.tensor(0, "elements"), op.tensor(1, "test_elements")
    is_member = any(expand_dims(elements, elements.ndim) == reshape(members, (members.size,)), -1)
    return ~is_member if flag(op, 3, "invert", False) else is_member
