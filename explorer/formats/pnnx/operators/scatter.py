"""Scatter operations: elements are written, added or reduced at indices along one axis."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.registry import function
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.common.scattered_extremes import scattered_extremes
from explorer.formats.pnnx.operators.base.arguments import Number
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.signature import Names
from explorer.ops.base import broadcast_to, cast
from explorer.ops.creation.constants import full, zeros
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.gather import TakeGradient
from explorer.ops.manipulation.padding import pad
from explorer.ops.manipulation.put import add_along_axis, put_along_axis
from explorer.ops.manipulation.reshape import expand_dims, reshape
from explorer.ops.reduction.reduce import prod

Source = Annotated[Expr | Number, Names("src", "value")]
"""a tensor with an element for each index, or one number"""


def _source(source: Expr | Number, index: Expr, x: Expr) -> Expr:
    """Return one source element for each index: a tensor cropped to the shape of ``index``, or a repeated number."""
    values = source if isinstance(source, Expr) else full((), source, x.dtype)
    if values.shape and (
        values.ndim != index.ndim or any(n > s for n, s in zip(index.shape, values.shape, strict=True))
    ):
        raise OperandError(
            f"a source {values.type} for an index {index.type}",
            rule="the source must be a number, or have an element for each index",
        )
    elements = values[tuple(map(slice, index.shape))] if values.shape else broadcast_to(values, index.shape)
    return cast(elements, x.dtype)


@file_operator("torch.scatter", "Tensor.scatter", "aten::scatter")
def scatter(input: Expr, dim: int, index: Expr, src: Source, reduce: None = None) -> Expr:
    """Write the elements of ``src`` to the indices ``index`` along ``dim``.

    If an index is repeated, the last element is kept.
    """
    return put_along_axis(input, index, _source(src, index, input), normalize_axis(dim, input.ndim, "scatter"))


@file_operator("torch.scatter_add", "Tensor.scatter_add", "aten::scatter_add")
def scatter_add(input: Expr, dim: int, index: Expr, src: Source) -> Expr:
    """Add the elements of ``src`` at the indices ``index`` along ``dim``; if an index is repeated, all are added."""
    return add_along_axis(input, index, _source(src, index, input), normalize_axis(dim, input.ndim, "scatter_add"))


@file_operator("torch.scatter_reduce", "Tensor.scatter_reduce", "aten::scatter_reduce")
def scatter_reduce(
    input: Expr,
    dim: int,
    index: Expr,
    src: Source,
    reduce: Literal["sum", "prod", "mean", "amax", "amin"],
    include_self: bool = True,
) -> Expr:
    """Reduce the elements of ``src`` for each index to their sum, product, mean or extreme.

    If ``include_self`` is True, the reduction includes the element of ``input``.
    """
    axis, source = normalize_axis(dim, input.ndim, "scatter_reduce"), _source(src, index, input)
    if reduce in ("amax", "amin"):
        extremes = scattered_extremes(input, index, source, axis, reduce == "amax")
        if not include_self:
            return extremes
        both: Expr = function("maximum" if reduce == "amax" else "minimum")(input, extremes)
        return both
    if reduce == "mean" and input.dtype.kind == "b":
        raise OperandError(f"reduce={reduce!r} of {input.type}", rule="booleans have no mean")
    count = add_along_axis(zeros(input.shape, np.int64), index, 1, axis)
    if reduce == "prod":
        product = _products(input, axis, index, source)
        # Elements without an index are kept. add_along_axis above raises an error if an index is out of range.
        return where(count > 0, cast(input * product, input.dtype) if include_self else product, input)
    start = input if include_self else where(count > 0, zeros((), input.dtype), input)
    total = add_along_axis(start, index, source, axis)
    if reduce == "sum":
        return total
    divisor = cast(where(count > 0, count + int(include_self), 1), input.dtype)
    return total / divisor if input.dtype.kind == "f" else total // divisor


def _products(x: Expr, axis: int, indices: Expr, source: Expr) -> Expr:
    """Return, for each position in x, the product of the elements of ``source`` with this index."""
    length = x.shape[axis]
    claim_constant("indices of products", length)
    positions = tensor(np.arange(length).reshape(length, 1, *[1] * (x.ndim - axis - 1)))
    is_equal = expand_dims(where(indices < 0, indices + length, indices), axis) == positions
    product = cast(prod(where(is_equal, expand_dims(source, axis), 1), axis + 1), x.dtype)
    # along the other axes, the index may be shorter than x
    missing = [(0, size - length) for size, length in zip(x.shape, product.shape, strict=True)]
    return pad(product, tuple(missing), constant_values=1)


def _check_index(index: Expr) -> None:
    if index.ndim != 1 or index.dtype.kind not in "iu":
        raise OperandError(f"an index {index.type}", rule="index must be a vector of integers")


def _parts(source: Expr, x: Expr, axis: int, index: Expr) -> Expr:
    """Return ``source`` in the dtype of ``x``; raise OperandError unless it has one slice for each index."""
    shape = (*x.shape[:axis], index.size, *x.shape[axis + 1 :])
    if source.shape != shape:
        raise OperandError(
            f"a source {source.type} for an index {index.type} along axis {axis} of {x.type}",
            rule=f"the source must have the shape {shape}",
        )
    return cast(source, x.dtype)


def _everywhere(x: Expr, axis: int, index: Expr) -> Expr:
    """Expand indices of slices along ``axis`` to indices of all elements of these slices."""
    along = reshape(index, (index.size, *[1] * (x.ndim - axis - 1)))
    return broadcast_to(along, (*x.shape[:axis], index.size, *x.shape[axis + 1 :]))


@file_operator("torch.index_add", "Tensor.index_add", "aten::index_add")
def index_add(input: Expr, dim: int, index: Expr, source: Expr, alpha: Number = 1) -> Expr:
    """Add slices of ``source`` at the indices ``index`` along ``dim``."""
    _check_index(index)
    axis = normalize_axis(dim, input.ndim, "index_add")
    added = TakeGradient(axis, input.shape)(_parts(source, input, axis, index), index)
    if input.dtype.kind != "f" and not isinstance(alpha, int):
        raise OperandError(f"alpha={alpha!r} for {input.type}", rule="alpha must be an integer if the operand is")
    return input + (added if alpha == 1 else cast(added * alpha, input.dtype))


@file_operator("torch.index_copy", "Tensor.index_copy", "aten::index_copy")
def index_copy(input: Expr, dim: int, index: Expr, source: Expr) -> Expr:
    """Replace the slices at the indices ``index`` along ``dim`` by slices of ``source``."""
    _check_index(index)
    axis = normalize_axis(dim, input.ndim, "index_copy")
    return put_along_axis(input, _everywhere(input, axis, index), _parts(source, input, axis, index), axis)


@file_operator("torch.index_fill", "Tensor.index_fill", "aten::index_fill")
def index_fill(input: Expr, dim: int, index: Expr, value: Expr | Number) -> Expr:
    """Fill the slices at the indices ``index`` along ``dim`` with ``value``."""
    _check_index(index)
    axis = normalize_axis(dim, input.ndim, "index_fill")
    fill = cast(value, input.dtype) if isinstance(value, Expr) else full((), value, input.dtype)
    return put_along_axis(input, _everywhere(input, axis, index), fill, axis)
