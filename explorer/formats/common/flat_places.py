"""One index into axes merged, out of an index for each axis: a single gather or scatter serves them then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.ops.manipulation.gather import take


def flat_places(indices: Sequence[Expr], sizes: Sequence[int]) -> Expr:
    """Return indices into axes of some sizes, broadcast together, as indices into these axes merged, row-major: int64.

    Each is looked up in the numbers of its axis: the run refuses one beyond it, and counts a negative one from the end.
    """
    flat: Expr | None = None
    for numbers, size in zip(indices, sizes, strict=True):
        claim_constant("numbers of an axis", size)
        place = take(tensor(np.arange(size)), numbers, 0)
        flat = place if flat is None else flat * size + place
    assert flat is not None
    return flat
