"""Distances and similarities of vectors."""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape, broadcast_shapes, normalize_axis
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import promoted
from explorer.net.operators.signature import Unused
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import broadcast_to
from explorer.ops.elementwise.unary import absolute, sqrt
from explorer.ops.manipulation.reshape import expand_dims, reshape
from explorer.ops.nn.activation import clip
from explorer.ops.reduction.reduce import sum
from explorer.ops.reduction.statistics import vector_norm


@file_operator("aten::cosine_similarity", "F.cosine_similarity")
def cosine_similarity(x1: Expr, x2: Expr, dim: int = 1, eps: float = 1e-8) -> Expr:
    """Return the cosine similarities of vectors along ``dim``; norms below ``eps`` are replaced with ``eps``."""
    first, second = promoted([x1, x2])
    shape = broadcast_shapes(first.shape, second.shape)
    if shape is None or first.dtype.kind != "f" or second.dtype.kind != "f":
        raise OperandError(
            f"vectors {first.type} and {second.type}",
            rule="the vectors must be floating-point and have shapes that broadcast",
        )
    return _cosines(first, second, shape, normalize_axis(dim, len(shape), "cosine_similarity"), eps)


@rounded_once
def _cosines(first: Expr, second: Expr, shape: Shape, axis: int, eps: float) -> Expr:
    units = []
    for x in (first, second):
        sizes = [*[1] * (len(shape) - x.ndim), *x.shape]
        sizes[axis] = shape[axis]
        # norms need the full length of the vectors; the product below broadcasts the other axes
        vectors = broadcast_to(reshape(x, (*[1] * (len(shape) - x.ndim), *x.shape)), tuple(sizes))
        units.append(vectors / clip(vector_norm(vectors, 2, axis, keepdims=True), eps, None))
    return sum(units[0] * units[1], axis)


@file_operator("F.pairwise_distance", "nn.PairwiseDistance", "aten::pairwise_distance")
def pairwise_distance(x1: Expr, x2: Expr, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Expr:
    """Return the ``p``-norms of ``x1`` − ``x2`` + ``eps`` along the last axis."""
    return _distances(x1, x2, p, -1, keepdim, eps)


@rounded_once
def _distances(x: Expr, y: Expr, power: float, axis: int | None, keep: bool = False, eps: float = 0.0) -> Expr:
    return vector_norm(x - y + eps if eps else x - y, power, axis, keep)


@file_operator("aten::dist", "torch.dist")
def dist(input: Expr, other: Expr, p: float = 2.0) -> Expr:
    """Return the ``p``-norm of the difference of two tensors."""
    return _distances(input, other, p, None)


@file_operator("aten::cdist")
def cdist(x1: Expr, x2: Expr, p: float = 2.0, compute_mode: Unused = None) -> Expr:
    """Return the ``p``-norm of the difference between each row of ``x1`` and each row of ``x2``."""
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1] or not p >= 0:
        raise OperandError(
            f"rows {x1.type} and {x2.type}, p={p!r}",
            rule="rows must have the same length, and p must be 0 or more",
        )
    return _distances_of_rows(expand_dims(x1, -2), expand_dims(x2, -3), p)


@rounded_once
def _distances_of_rows(x: Expr, y: Expr, power: float) -> Expr:
    difference = x - y
    if power == 2:
        return sqrt(sum(difference * difference, -1))
    if power == 1:
        return sum(absolute(difference), -1)
    return vector_norm(difference, power, (-1,), False)
