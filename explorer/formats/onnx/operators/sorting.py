"""The order of elements along an axis, and running sums."""

from __future__ import annotations

from collections.abc import Callable

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.common.known_inputs import whole
from explorer.formats.onnx.operators.base.operator_inputs import axis_of, first
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.manipulation.rearrange import flip
from explorer.ops.reduction.sorting import argmax, argmin, cumsum, topk


def _place(op: OperatorContext, find: Callable[..., Expr]) -> Expr:
    x = first(op)
    axis, keep = axis_of(op, x, 0), bool(op.integer("keepdims", 1))
    if op.integer("select_last_index", 0):
        # the first of the reversed elements is the last one
        return x.shape[axis] - 1 - find(flip(x, axis), axis, keep)
    return find(x, axis, keep)


@operator("ArgMax")
def arg_max(op: OperatorContext) -> Expr:
    """The place of the largest element, the first or the last of several."""
    return _place(op, argmax)


@operator("ArgMin")
def arg_min(op: OperatorContext) -> Expr:
    """The place of the smallest element, the first or the last of several."""
    return _place(op, argmin)


@operator("TopK", ignored=("sorted",))
def top_k(op: OperatorContext) -> tuple[Expr, ...]:
    """The K largest or smallest elements in order, and their places."""
    x = first(op)
    values, places = topk(x, whole(op, "K"), axis_of(op, x, -1), bool(op.integer("largest", 1)))
    return (values, places)[: len(op.definition.outputs)]


@operator("CumSum")
def cumulative_sum(op: OperatorContext) -> Expr:
    """Running sums along an axis, from either end, with or without each element itself."""
    x = first(op)
    axis = normalize_axis(whole(op, "axis"), x.ndim, "CumSum")
    exclusive, reverse = bool(op.integer("exclusive", 0)), bool(op.integer("reverse", 0))
    return cast(cumsum(x, axis, exclusive=exclusive, reverse=reverse), x.dtype)
