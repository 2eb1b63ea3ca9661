"""Distances and likenesses of vectors."""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape, broadcast_shapes, normalize_axis
from explorer.formats.pnnx.operators.base.arguments import flag, integer, number
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import promoted
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.schema import Count
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import broadcast_to
from explorer.ops.elementwise.unary import absolute, sqrt
from explorer.ops.manipulation.reshape import expand_dims, reshape
from explorer.ops.nn.activation import clip
from explorer.ops.reduction.reduce import sum
from explorer.ops.reduction.statistics import vector_norm


@file_operator("aten::cosine_similarity", "F.cosine_similarity", operands=Count(2, 4))
def cosine_similarity(op: OperatorContext) -> Expr:
    """The cosines of the angles between vectors along an axis; a length below eps counts as eps."""
    first, second = promoted([op.tensor(0, "x1"), op.tensor(1, "x2")])
    shape = broadcast_shapes(first.shape, second.shape)
    if shape is None or first.dtype.kind != "f" or second.dtype.kind != "f":
        raise OperandError(
            f"vectors {first.type} and {second.type}",
            rule=f"{op.definition.type}: the vectors must be of real numbers and broadcast together",
        )
    axis = normalize_axis(integer(op, 2, "dim", 1), len(shape), "cosine_similarity")
    return _cosines(first, second, shape, axis, number(op, 3, "eps", 1e-8))


@rounded_once
def _cosines(first: Expr, second: Expr, shape: Shape, axis: int, eps: float) -> Expr:
    units = []
    for x in (first, second):
        sizes = [*[1] * (len(shape) - x.ndim), *x.shape]
        sizes[axis] = shape[axis]
        # a vector of one element is as long as the other; other axes are broadcast by the product
        whole = broadcast_to(reshape(x, (*[1] * (len(shape) - x.ndim), *x.shape)), tuple(sizes))
        units.append(whole / clip(vector_norm(whole, 2, axis, keepdims=True), eps, None))
    return sum(units[0] * units[1], axis)


@file_operator("F.pairwise_distance", "nn.PairwiseDistance", "aten::pairwise_distance", operands=Count(2, 5))
def pairwise_distance(op: OperatorContext) -> Expr:
    """The p-norms of x1 − x2 + eps along the last axis."""
    power, eps = number(op, 2, "p", 2.0), number(op, 3, "eps", 1e-6)
    return _distances(op.tensor(0, "x1"), op.tensor(1, "x2"), power, -1, flag(op, 4, "keepdim", False), eps)


@rounded_once
def _distances(x: Expr, y: Expr, power: float, axis: int | None, keep: bool = False, eps: float = 0.0) -> Expr:
    return vector_norm(x - y + eps if eps else x - y, power, axis, keep)


@file_operator("aten::dist", "torch.dist", operands=Count(2, 3))
def distance(op: OperatorContext) -> Expr:
    """The p-norm of the difference of two tensors."""
    return _distances(op.x, op.tensor(1, "other"), number(op, 2, "p", 2.0), None)


@file_operator("aten::cdist", operands=Count(2, 4), ignored=("compute_mode", 3))
def distances(op: OperatorContext) -> Expr:
    """The p-norms of the differences of all rows of one matrix and all rows of another."""
    x, y, power = op.x, op.tensor(1, "x2"), number(op, 2, "p", 2.0)
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-1] or not power >= 0:
        raise OperandError(
            f"rows {x.type} and {y.type}, p={power!r}",
            rule="aten::cdist: rows must be of one length, and p a number of 0 or more",
        )
    return _distances_of_rows(expand_dims(x, -2), expand_dims(y, -3), power)


@rounded_once
def _distances_of_rows(x: Expr, y: Expr, power: float) -> Expr:
    difference = x - y
    if power == 2:
        return sqrt(sum(difference * difference, -1))
    if power == 1:
        return sum(absolute(difference), -1)
    return vector_norm(difference, power, (-1,), False)
