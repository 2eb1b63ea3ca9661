"""Which weights of two models have other values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor
from explorer.record.compare.comparison import Comparison
from explorer.record.escape import visible

_LISTED = 40
"""weights with other values that are listed at most"""


class Weights(NamedTuple):
    """The weights of two models that stand for each other: how many are equal, and lines about those that differ."""

    equal: int
    transposed: int
    """matrices that are equal once one is transposed: the graph tells where it is"""
    differ: list[str]

    @property
    def text(self) -> str:
        """A line with the counts, and one for each weight that differs."""
        turned = f", {self.transposed:,} with the same values transposed" if self.transposed else ""
        told = f"weights: {self.equal:,} with the same values{turned}, {len(self.differ):,} with others"
        lines = [told, *self.differ[:_LISTED]]
        rest = len(self.differ) - _LISTED
        return "\n".join(lines + [f"  … and {rest:,} more"] * (rest > 0)) + "\n"


def compare_weights(comparison: Comparison, before: Sequence[Expr], after: Sequence[Expr]) -> Weights:
    """Compare the values of weights; ``before`` and ``after`` are the expressions of both recordings' nodes.

    Raises what reading a weight raises: FileError where a file lacks it.
    """
    equal, transposed, differ = 0, 0, []
    recording = comparison.before
    for node, other in comparison.nodes.pairs.items():
        one, two = before[node], after[other]
        if recording.nodes.kind[node] != "leaf" or not (isinstance(one, Tensor) and isinstance(two, Tensor)):
            continue
        if one.dtype != two.dtype or (one.shape != two.shape and one.shape != two.shape[::-1]):
            continue  # told as a change of the graph
        apart = _apart(one.array, two.array)
        if not apart:
            equal += 1
        elif len(one.shape) == 2 and not _apart(one.array.T, two.array):
            transposed += 1
        else:
            differ.append(visible(f"  Δ {recording.label(node)} {recording.type_text(node)}: {apart}"))
    return Weights(equal, transposed, differ)


def _apart(one: Any, two: Any) -> str:
    """Say how far two arrays of one dtype are apart; "" where they are equal, with NaN equal to NaN."""
    if one.shape != two.shape:
        return "transposed, with other values"
    unequal = (one != two) & ~((one != one) & (two != two))
    count = int(np.count_nonzero(unequal))
    if not count:
        return ""
    said = f"{count:,} of {one.size:,} elements differ"
    if one.dtype.kind not in "fiuc":
        return said
    with np.errstate(invalid="ignore", over="ignore"):
        far = np.abs(np.subtract(one[unequal], two[unequal], dtype=np.result_type(one.dtype, np.float64)))
    known = far[~np.isnan(far)]  # NaN, where one of two is NaN, or both are infinite complex numbers
    largest = f", by {np.max(known):.3g} at most" if known.size else ""
    unknown = far.size - known.size
    return said + largest + (f", {unknown:,} of them by no number, for one is NaN" if unknown else "")
