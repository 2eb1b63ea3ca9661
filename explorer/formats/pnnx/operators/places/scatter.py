"""Elements written, added or compared at the places that an index names along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.registry import function
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.common.scattered_extremes import scattered_extremes
from explorer.formats.pnnx.operators.base.arguments import flag, integer, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import broadcast_to, cast
from explorer.ops.creation.constants import full, zeros
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.gather import TakeGradient
from explorer.ops.manipulation.padding import pad
from explorer.ops.manipulation.put import add_along_axis, put_along_axis
from explorer.ops.manipulation.reshape import expand_dims, reshape
from explorer.ops.reduction.reduce import prod


def _axis(op: OperatorContext) -> int:
    return normalize_axis(integer(op, 1, "dim"), op.x.ndim, op.definition.type)


def _source(op: OperatorContext, name: str, numbers: Expr) -> Expr:
    """Return the source's element for each index: its first rows, or one number."""
    source = value(op, 3, name, None)
    if not isinstance(source, Expr):
        source = value(op, 3, "value") if source is None else source
        source = full((), source, op.x.dtype) if isinstance(source, (bool, int, float)) else source
    if not isinstance(source, Expr) or (
        source.shape
        and (source.ndim != numbers.ndim or any(n > s for n, s in zip(numbers.shape, source.shape, strict=True)))
    ):
        raise OperandError(
            f"a source {source.type if isinstance(source, Expr) else repr(source)} for an index {numbers.type}",
            rule=f"{op.definition.type}: the source must be a number, or have an element for each index",
        )
    rows = source[tuple(map(slice, numbers.shape))] if source.shape else broadcast_to(source, numbers.shape)
    return cast(rows, op.x.dtype)


@file_operator("torch.scatter", "Tensor.scatter", "aten::scatter")
def scatter(op: OperatorContext) -> Expr:
    """Elements replaced along an axis; of several for one place the last one stays."""
    op.only("reduce", None)
    if len(op.passed) > 4:
        raise OperandError(
            f"reduce={op.operand(4)!r}", rule="aten::scatter: reduce must not be given; it replaces elements"
        )
    numbers = op.tensor(2, "index")
    return put_along_axis(op.x, numbers, _source(op, "src", numbers), _axis(op))


@file_operator("torch.scatter_add", "Tensor.scatter_add", "aten::scatter_add")
def scatter_add(op: OperatorContext) -> Expr:
    """Elements added along an axis; of several for one place all are added."""
    numbers = op.tensor(2, "index")
    return add_along_axis(op.x, numbers, _source(op, "src", numbers), _axis(op))


@file_operator("torch.scatter_reduce", "Tensor.scatter_reduce", "aten::scatter_reduce")
def scatter_reduce(op: OperatorContext) -> Expr:
    """The sum, product, mean or an extreme of all elements for one place, with or without the one that is there."""
    x, axis, numbers = op.x, _axis(op), op.tensor(2, "index")
    source, how, with_own = _source(op, "src", numbers), value(op, 4, "reduce"), flag(op, 5, "include_self", True)
    if how in ("amax", "amin"):
        extremes = scattered_extremes(x, numbers, source, axis, how == "amax")
        if not with_own:
            return extremes
        both: Expr = function("maximum" if how == "amax" else "minimum")(x, extremes)
        return both
    if how not in ("sum", "prod", "mean") or (how == "mean" and x.dtype.kind == "b"):
        raise OperandError(
            f"reduce={how!r} of {x.type}",
            rule=f"{op.definition.type}: reduce must be one of sum, prod, mean, amax, amin; truths have no mean",
        )
    count = add_along_axis(zeros(x.shape, np.int64), numbers, 1, axis)
    if how == "prod":
        product = _products(x, axis, numbers, source)
        # places without an element keep their own; a place beyond the axis is refused by the count
        return where(count > 0, cast(x * product, x.dtype) if with_own else product, x)
    total = add_along_axis(x if with_own else where(count > 0, zeros((), x.dtype), x), numbers, source, axis)
    if how == "sum":
        return total
    number = where(count > 0, count + int(with_own), 1)
    return total / cast(number, x.dtype) if x.dtype.kind == "f" else total // cast(number, x.dtype)


def _products(x: Expr, axis: int, numbers: Expr, source: Expr) -> Expr:
    """Return the product of all elements of the source for each place of x: each place looks at all indices."""
    length = x.shape[axis]
    claim_constant("places of products", length)
    places = tensor(np.arange(length).reshape(length, 1, *[1] * (x.ndim - axis - 1)))
    is_here = expand_dims(where(numbers < 0, numbers + length, numbers), axis) == places
    product = cast(prod(where(is_here, expand_dims(source, axis), 1), axis + 1), x.dtype)
    # along the other axes the index may cover the first rows alone
    behind = [(0, size - own) for size, own in zip(x.shape, product.shape, strict=True)]
    return pad(product, tuple(behind), constant_values=1)


def _rows(op: OperatorContext) -> tuple[Expr, int, Expr]:
    """Return the operand, the axis and the numbers of the parts along it; raises OperandError for a table of them."""
    x, axis, numbers = op.x, _axis(op), op.tensor(2, "index")
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise OperandError(f"an index {numbers.type}", rule=f"{op.definition.type}: index must be a list of integers")
    return x, axis, numbers


def _parts(op: OperatorContext, x: Expr, axis: int, numbers: Expr) -> Expr:
    """Return the source of parts along an axis; raises OperandError where there is none for each number."""
    source = op.tensor(3, "source")
    shape = (*x.shape[:axis], numbers.size, *x.shape[axis + 1 :])
    if source.shape != shape:
        raise OperandError(
            f"a source {source.type} for an index {numbers.type} along axis {axis} of {x.type}",
            rule=f"{op.definition.type}: the source must have the shape {shape}",
        )
    return cast(source, x.dtype)


def _everywhere(x: Expr, axis: int, numbers: Expr) -> Expr:
    """Return numbers of parts as indices of all their elements."""
    along = reshape(numbers, (numbers.size, *[1] * (x.ndim - axis - 1)))
    return broadcast_to(along, (*x.shape[:axis], numbers.size, *x.shape[axis + 1 :]))


@file_operator("torch.index_add", "Tensor.index_add", "aten::index_add")
def index_add(op: OperatorContext) -> Expr:
    """Parts added at numbers along an axis."""
    x, axis, numbers = _rows(op)
    added = TakeGradient(axis, x.shape)(_parts(op, x, axis, numbers), numbers)
    alpha: Any = value(op, 4, "alpha", 1)
    if x.dtype.kind != "f" and not isinstance(alpha, int):
        raise OperandError(
            f"alpha={alpha!r} for {x.type}",
            rule=f"{op.definition.type}: alpha must be an integer for whole numbers",
        )
    return x + (added if alpha == 1 else cast(added * alpha, x.dtype))


@file_operator("torch.index_copy", "Tensor.index_copy", "aten::index_copy")
def index_copy(op: OperatorContext) -> Expr:
    """Parts replaced at numbers along an axis."""
    x, axis, numbers = _rows(op)
    return put_along_axis(x, _everywhere(x, axis, numbers), _parts(op, x, axis, numbers), axis)


@file_operator("torch.index_fill", "Tensor.index_fill", "aten::index_fill")
def index_fill(op: OperatorContext) -> Expr:
    """One number in the parts at numbers along an axis."""
    x, axis, numbers = _rows(op)
    fill = value(op, 3, "value")
    one = cast(fill, x.dtype) if isinstance(fill, Expr) else full((), fill, x.dtype)
    return put_along_axis(x, _everywhere(x, axis, numbers), one, axis)
