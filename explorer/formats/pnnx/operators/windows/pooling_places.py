"""Places of the elements that poolings choose, as numbers in the image without its leading axes."""

from __future__ import annotations

import math

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import Array
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.reshape import reshape
from explorer.ops.reduction.reduce import max
from explorer.ops.reduction.sorting import argmax


def window_spans(length: int, count: int, size: int, step: int, side: int, gap: int) -> Array:
    """Return the places along one axis that each window covers, (count, size); −1 for those in the padding."""
    claim_constant("places of windows", count * size)
    spans = np.arange(count)[:, None] * step - side + np.arange(size) * gap
    return np.where((spans >= 0) & (spans < length), spans, -1)


def even_spans(length: int, count: int) -> Array:
    """Return the places that each of so many even windows covers, as ``window_spans`` does."""
    starts, ends = np.arange(count) * length // count, -(-np.arange(1, count + 1) * length // count)
    size = int((ends - starts).max(initial=0))
    claim_constant("places of windows", count * size)
    spans = starts[:, None] + np.arange(size)
    return np.where(spans < ends[:, None], spans, -1)


def window_places(x: Expr, spans: list[Array]) -> Expr:
    """Return the place of the largest element of each window, int64: the first of equal ones, the last NaN."""
    counts, lengths = tuple([len(each) for each in spans]), x.shape[2:]
    windows, elements = math.prod(counts), math.prod([each.shape[1] for each in spans])
    claim_constant("places of windows", windows * elements)
    table = np.zeros((windows, elements), np.int64)
    inside = np.ones((windows, elements), bool)
    for axis, span in enumerate(spans):
        # one axis for the windows along each axis of the image, then one for the elements of a window along each
        shape = [1] * (2 * len(spans))
        shape[axis], shape[len(spans) + axis] = span.shape
        whole = (*counts, *[each.shape[1] for each in spans])
        along = np.broadcast_to(span.reshape(shape), whole).reshape(windows, elements)
        table = table * lengths[axis] + along
        inside &= along >= 0
    # in place of the padding stands the window's first element once more, in front: it never wins over itself
    first = np.where(inside, table, np.iinfo(np.int64).max).min(1, keepdims=True)
    table = np.sort(np.where(inside, table, first), 1)
    values = take(reshape(x, (*x.shape[:2], math.prod(lengths))), table, 2)
    best = argmax(values, -1)
    if x.dtype.kind == "f":
        last = max(where(values != values, np.arange(elements), -1), -1)
        best = where(last >= 0, last, best)
    numbers = best + np.arange(windows) * elements
    return reshape(take(tensor(table.reshape(-1)), numbers, 0), (*x.shape[:2], *counts))
