"""Operators that sort elements along an axis, find extremes or distinct slices, and compute cumulative sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.operation_examples import Example, integers
from explorer.core.types.tensor_type import AnyType, Array, TensorType, normalize_axis
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import is_known, value_of
from explorer.net.operators.signature import Known, Outputs, Unused
from explorer.ops.base import cast
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.rearrange import flip
from explorer.ops.manipulation.reshape import reshape
from explorer.ops.reduction.sorting import argmax, argmin, cumsum, topk


def _register_extreme(type: str, find: Callable[..., Expr], doc: str) -> None:
    @operator(type)
    def extreme(data: Expr, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Expr:
        axis = normalize_axis(axis, data.ndim, type)
        if select_last_index:
            # the first extreme of the reversed elements is the last extreme
            return data.shape[axis] - 1 - find(flip(data, axis), axis, bool(keepdims))
        return find(data, axis, bool(keepdims))

    extreme.__doc__ = doc


_register_extreme("ArgMax", argmax, "Return the index of the first or last largest element.")
_register_extreme("ArgMin", argmin, "Return the index of the first or last smallest element.")


@operator("TopK")
def top_k(
    X: Expr, K: Known[int], *, axis: int = -1, largest: int = 1, sorted: Unused, outputs: Outputs
) -> tuple[Expr, ...]:
    """Return the K largest or smallest elements in sorted order, and their indices."""
    return topk(X, K, normalize_axis(axis, X.ndim, "TopK"), bool(largest))[:outputs]


@operator("CumSum")
def cumulative_sum(x: Expr, axis: Known[int], *, exclusive: int = 0, reverse: int = 0) -> Expr:
    """Return cumulative sums along an axis; ``reverse`` sums from the end, ``exclusive`` omits the element itself."""
    axis = normalize_axis(axis, x.ndim, "CumSum")
    return cast(cumsum(x, axis, exclusive=bool(exclusive), reverse=bool(reverse)), x.dtype)


class UniqueIndices(Operation):
    """First indices, inverse indices and counts of the distinct slices along an axis, as in ``np.unique``.

    The result is the concatenation of these three lists. Distinct slices are sorted, or in order of first occurrence.
    Running raises ValueError if the number of distinct slices is not ``count``.
    """

    axis: int
    count: int
    is_sorted: bool = True
    accepts_strings, string_operands = True, slice(1)
    portable = False
    nondifferentiable = "indices and counts are integers"
    unbatchable = "each batch element may have a different number of distinct parts"
    examples = (Example(integers(6, high=1), axis=0, count=1), Example(integers(2, 3, high=1), axis=1, count=1))

    def infer(self, x: TensorType) -> TensorType:
        """Return (count + slices + count,), int64."""
        if not 0 <= self.axis < x.rank or not 0 <= self.count <= x.shape[self.axis]:
            raise self.refuse((x,), f"the operand must have an axis {self.axis} of at least {self.count} parts")
        return TensorType((2 * self.count + x.shape[self.axis],), np.int64)

    def kernel(self, out: Array, x: Array) -> Array:
        """Find the distinct slices; raise ValueError if their number is not ``count``."""
        first, inverse, counts = distinct(x, self.axis)
        if first.size != self.count:
            raise ValueError(f"{first.size} distinct parts, but the plan expects {self.count}")
        if not self.is_sorted:
            order = np.argsort(first, kind="stable")
            first, inverse, counts = first[order], np.argsort(order, kind="stable")[inverse], counts[order]
        return np.concatenate([first, inverse, counts], out=out)

    def workspace(self, x: TensorType) -> int:
        """Return the bytes of a sorted copy, its order, and the three lists."""
        return x.nbytes + 6 * x.shape[self.axis] * np.dtype(np.int64).itemsize

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return the number of comparisons of a sort."""
        return types[0].size * max(1, types[0].shape[self.axis] - 1).bit_length()


def distinct(x: Array, axis: int) -> tuple[Array, Array, Array]:
    """Return first indices, inverse indices and counts of the distinct slices along an axis, like ``np.unique``."""
    if not x.size:
        # empty slices are equal
        count = x.shape[axis]
        zeros = np.zeros(min(count, 1), np.int64)
        return zeros, np.zeros(count, np.int64), zeros + count
    _, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    return first, inverse.reshape(-1), counts


@operator("Unique")
def unique(
    op: OperatorContext, X: Expr, *, axis: int | None = None, sorted: int = 1, outputs: Outputs
) -> tuple[Expr, ...]:
    """Return distinct elements or slices with their indices and counts, sorted or in order of occurrence."""
    parts = reshape(X, (X.size,)) if axis is None else X
    axis = normalize_axis(axis or 0, parts.ndim, "Unique")

    def count_of(arrays: Any) -> int:
        return int(distinct(arrays[0], axis)[0].size)

    count = count_of([value_of(parts)]) if is_known(parts) else op.ask("the number of parts", [parts], count_of, X.size)
    assert isinstance(count, int)
    node = UniqueIndices(axis, count, bool(sorted))(parts)
    indices, inverse, counts = node[:count], node[count : node.size - count], node[node.size - count :]
    return (take(parts, indices, axis), indices, inverse, counts)[:outputs]
