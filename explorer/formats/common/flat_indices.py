"""Conversion of indices along several axes to one index into the merged axes, for a single gather or scatter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.ops.manipulation.gather import take


def merge_indices(indices: Sequence[Expr], sizes: Sequence[int]) -> Expr:
    """Convert indices along axes of lengths ``sizes`` to int64 row-major indices into the merged axes.

    ``indices`` has one expression for each axis, and the expressions are broadcast together. Each index is looked up in
    a table for its axis, so an index out of range raises an error at run time, and negative indices count from the end.
    """
    flat: Expr | None = None
    for index, size in zip(indices, sizes, strict=True):
        claim_constant("indices of an axis", size)
        position = take(tensor(np.arange(size)), index, 0)
        flat = position if flat is None else flat * size + position
    assert flat is not None
    return flat
