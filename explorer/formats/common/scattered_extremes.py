"""Extremes of elements at the places where they fall, by their order: the one that is written last stays."""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.ops.manipulation.gather import TakeAlong
from explorer.ops.manipulation.put import put_along_axis
from explorer.ops.reduction.sorting import argsort


def scattered_extremes(x: Expr, numbers: Expr, source: Expr, axis: int, largest: bool) -> Expr:
    """Return x with the largest or smallest element of a source at each index along an axis; NaN wins over both."""
    # written in their order, the largest comes last, and stays; so does a NaN, which is sorted last
    falls = not largest
    order = argsort(-source, axis) if falls and source.dtype.kind == "f" else argsort(source, axis, falls)
    return put_along_axis(x, TakeAlong(axis)(numbers, order), TakeAlong(axis)(source, order), axis)
