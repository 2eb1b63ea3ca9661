"""Elements written or added at places that are inputs: along one axis, or at rows of indices into the first axes.

(ScatterElements and ScatterND since opset 11, with reductions since 16; Scatter before them.) Of several elements for
one place the last one stays, or all are added, or the largest or smallest of them and of the one there stays; products
of them are left to the reference evaluator.
"""

from __future__ import annotations

from math import prod
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.common.flat_places import flat_places
from explorer.formats.common.scattered_extremes import scattered_extremes
from explorer.formats.onnx.operators.base.delegated import delegated
from explorer.formats.onnx.operators.base.operator_inputs import axis_of
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import required
from explorer.ops.base import broadcast_to
from explorer.ops.elementwise.arithmetic import maximum, minimum
from explorer.ops.manipulation.put import add_along_axis, put_along_axis
from explorer.ops.manipulation.reshape import reshape

_REDUCTIONS = ("none", "add", "mul", "max", "min")
_EXTREMES = {"max": maximum, "min": minimum}


def _written(op: OperatorContext, x: Expr, numbers: Expr, values: Expr, axis: int) -> Expr:
    if values.shape != numbers.shape or values.dtype != x.dtype:
        raise OperandError(
            f"updates {values.type} at indices {numbers.type} of {x.type}",
            rule=f"{op.definition.type}: there must be an update for each index, of the dtype of the data",
        )
    reduction = op.word("reduction", "none", _REDUCTIONS)
    if reduction in _EXTREMES:
        return _EXTREMES[reduction](x, scattered_extremes(x, numbers, values, axis, reduction == "max"))
    return (add_along_axis if reduction == "add" else put_along_axis)(x, numbers, values, axis)


def _is_own(op: OperatorContext, x: Expr) -> bool:
    return op.argument("reduction", "none") != "mul" and x.dtype.kind in "biuf"


@operator("ScatterElements")
def scatter_elements(op: OperatorContext) -> Any:
    """Elements written or added along an axis, each at its own position on the others."""
    x = required(op, "data")
    if not _is_own(op, x):
        return delegated(op)
    return _written(op, x, required(op, "indices"), required(op, "updates"), axis_of(op, x, 0))


@operator("ScatterND")
def scatter_parts(op: OperatorContext) -> Any:
    """Parts written or added at rows of indices into the first axes."""
    x, indices, updates = required(op, "data"), required(op, "indices"), required(op, "updates")
    if not _is_own(op, x):
        return delegated(op)
    depth = indices.shape[-1] if indices.ndim else 0
    if not 0 < depth <= x.ndim or updates.shape != (*indices.shape[:-1], *x.shape[depth:]):
        raise OperandError(
            f"updates {updates.type} at indices {indices.type} of {x.type}",
            rule="ScatterND: a row of indices must have at most as many numbers as the data has axes, and an update "
            "must have the sizes of the other axes",
        )
    places = flat_places([indices[..., axis] for axis in range(depth)], x.shape[:depth])
    count, rest = places.size, prod(x.shape[depth:])
    numbers = broadcast_to(reshape(places, (count, 1)), (count, rest))
    flat = reshape(x, (prod(x.shape[:depth]), rest))
    return reshape(_written(op, flat, numbers, reshape(updates, (count, rest)), 0), x.shape)
