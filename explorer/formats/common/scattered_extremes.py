"""Scatter with a maximum or minimum: elements are written in sorted order, so that the extreme is written last."""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.ops.manipulation.gather import TakeAlong
from explorer.ops.manipulation.put import put_along_axis
from explorer.ops.reduction.sorting import argsort


def scattered_extremes(x: Expr, indices: Expr, source: Expr, axis: int, largest: bool) -> Expr:
    """Return ``x`` with the largest or smallest element of ``source`` written to each index along ``axis``.

    ``indices`` and ``source`` have the same shape. NaN takes precedence over all numbers. Elements of ``x`` whose index
    does not occur keep their values.
    """
    # NaN is sorted last, and so overwrites all other elements
    descends = not largest
    order = argsort(-source, axis) if descends and source.dtype.kind == "f" else argsort(source, axis, descends)
    return put_along_axis(x, TakeAlong(axis)(indices, order), TakeAlong(axis)(source, order), axis)
