"""Comparison of the weights of two models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor
from explorer.core.types.tensor_type import Array
from explorer.record.compare.comparison import Comparison, WeightDifferences
from explorer.record.escape import visible


def compare_weights(comparison: Comparison, before: Sequence[Expr], after: Sequence[Expr]) -> WeightDifferences:
    """Compare the values of weights; ``before`` and ``after`` are the expressions of the two recordings' nodes.

    Raise an error, such as FileError, if a weight cannot be read.
    """
    equal, transposed, differ = 0, 0, []
    recording = comparison.before
    for node, other in comparison.nodes.pairs.items():
        tensor_before, tensor_after = before[node], after[other]
        if recording.nodes.kind[node] != "leaf" or not (
            isinstance(tensor_before, Tensor) and isinstance(tensor_after, Tensor)
        ):
            continue
        if tensor_before.dtype != tensor_after.dtype or (
            tensor_before.shape != tensor_after.shape and tensor_before.shape != tensor_after.shape[::-1]
        ):
            continue  # already listed as a change of the graph
        if tensor_before.storage is tensor_after.storage:
            equal += 1
            continue
        value_before, value_after = _value_of(tensor_before), _value_of(tensor_after)
        difference = _difference(value_before, value_after)
        if not difference:
            equal += 1
        elif value_before.ndim == 2 and not _difference(value_before.T, value_after):
            transposed += 1
        else:
            differ.append(visible(f"Δ {recording.label(node)} {recording.type_text(node)}: {difference}"))
    return WeightDifferences(equal, transposed, tuple(differ))


def _value_of(tensor: Tensor) -> Array:
    """Return the value of a tensor; a value read from a file is not kept."""
    return tensor.storage.device.read(tensor.storage.peek())


def _difference(before: Any, after: Any) -> str:
    """Return how two arrays of one dtype differ, as text; "" if they are equal. NaN equals NaN."""
    if before.shape != after.shape:
        return "transposed, with other values"
    # NaN is the only number that differs from itself
    unequal = (before != after) & ~((before != before) & (after != after))
    count = int(np.count_nonzero(unequal))
    if not count:
        return ""
    difference = f"{count:,} of {before.size:,} elements differ"
    if before.dtype.kind not in "fiuc":
        return difference
    with np.errstate(invalid="ignore", over="ignore"):
        distances = np.abs(np.subtract(before[unequal], after[unequal], dtype=np.result_type(before.dtype, np.float64)))
    # the difference is NaN if an element is NaN, or if both are infinite complex numbers
    known_distances = distances[~np.isnan(distances)]
    largest = f", by {np.max(known_distances):.3g} at most" if known_distances.size else ""
    unknown = distances.size - known_distances.size
    return difference + largest + (f", {unknown:,} of them by no number, for one is NaN" if unknown else "")
