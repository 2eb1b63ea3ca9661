"""Operators that write or add elements at indices along one axis, or slices at indices along the first axes.

ScatterElements and ScatterND replaced Scatter in opset 11, and have reductions since opset 16. If an index is repeated,
the last element is written, or all elements are added. The reductions max and min include the existing element.
Multiplication is delegated to the reference evaluator.
"""

from __future__ import annotations

from math import prod
from typing import Any, Literal

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.common.flat_indices import merge_indices
from explorer.formats.common.scattered_extremes import scattered_extremes
from explorer.formats.onnx.operators.base.delegated import delegated
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import broadcast_to
from explorer.ops.elementwise.arithmetic import maximum, minimum
from explorer.ops.manipulation.put import add_along_axis, put_along_axis
from explorer.ops.manipulation.reshape import reshape

_EXTREMES = {"max": maximum, "min": minimum}
_Reduction = Literal["none", "add", "mul", "max", "min"]


def _scattered(x: Expr, indices: Expr, updates: Expr, axis: int, reduction: _Reduction) -> Expr:
    if updates.shape != indices.shape or updates.dtype != x.dtype:
        raise OperandError(
            f"updates {updates.type} at indices {indices.type} of {x.type}",
            rule="updates must have the shape of the indices and the dtype of the data",
        )
    if reduction in _EXTREMES:
        return _EXTREMES[reduction](x, scattered_extremes(x, indices, updates, axis, reduction == "max"))
    return (add_along_axis if reduction == "add" else put_along_axis)(x, indices, updates, axis)


@operator("ScatterElements")
def scatter_elements(
    op: OperatorContext, data: Expr, indices: Expr, updates: Expr, *, axis: int = 0, reduction: _Reduction = "none"
) -> Any:
    """Write or add elements at indices along ``axis``; their positions along the other axes are unchanged."""
    if reduction == "mul" or data.dtype.kind not in "biuf":
        return delegated(op)
    return _scattered(data, indices, updates, normalize_axis(axis, data.ndim, "ScatterElements"), reduction)


@operator("ScatterND")
def scatter_nd(op: OperatorContext, data: Expr, indices: Expr, updates: Expr, *, reduction: _Reduction = "none") -> Any:
    """Write or add slices; each row of ``indices`` is the index of a slice along the first axes."""
    if reduction == "mul" or data.dtype.kind not in "biuf":
        return delegated(op)
    depth = indices.shape[-1] if indices.ndim else 0
    if not 0 < depth <= data.ndim or updates.shape != (*indices.shape[:-1], *data.shape[depth:]):
        raise OperandError(
            f"updates {updates.type} at indices {indices.type} of {data.type}",
            rule="ScatterND: a row of indices must have at most as many numbers as the data has axes, and an update "
            "must have the sizes of the remaining axes",
        )
    flat_indices = merge_indices([indices[..., axis] for axis in range(depth)], data.shape[:depth])
    count, rest = flat_indices.size, prod(data.shape[depth:])
    rows = broadcast_to(reshape(flat_indices, (count, 1)), (count, rest))
    flat = reshape(data, (prod(data.shape[:depth]), rest))
    return reshape(_scattered(flat, rows, reshape(updates, (count, rest)), 0, reduction), data.shape)
