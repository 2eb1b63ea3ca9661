"""Sorting, extremes, ranks and quantiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.registry import function
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.signature import Names, Outputs, Unused
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.gather import TakeAlong
from explorer.ops.manipulation.reshape import reshape, squeeze
from explorer.ops.reduction.reduce import any, sum
from explorer.ops.reduction.sorting import argmax, argmin, argsort, topk

_FRACTIONS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda rank: rank - np.floor(rank),
    "lower": lambda rank: rank * 0,
    "higher": lambda rank: rank * 0 + 1,
    "nearest": lambda rank: np.round(rank) - np.floor(rank),
    "midpoint": lambda rank: rank * 0 + rank.dtype.type(0.5),
}
"""weight of the upper rank for each of torch's interpolations between two ranks"""


def _register_extremes(name: str) -> None:
    index_of = argmax if name == "max" else argmin

    @file_operator(f"torch.arg{name}", f"Tensor.arg{name}", f"aten::arg{name}")
    def index_of_extreme(input: Expr, dim: int | None = None, keepdim: bool = False) -> Expr:
        return index_of(input, dim, keepdim)

    index_of_extreme.__doc__ = f"Return the index of the {name}imum."

    @file_operator(f"torch.{name}")
    def extreme(
        input: Expr,
        dim: Annotated[Expr | int | None, Names("dim", "other")] = None,
        keepdim: bool = False,
        *,
        outputs: Outputs,
    ) -> Any:
        if isinstance(dim, Expr):
            return function(f"{name}imum")(input, dim)
        if dim is None:
            return function(name)(input)
        axis = normalize_axis(dim, input.ndim, name)
        element, index = _with_index(input, index_of(input, axis, True), axis, keepdim)
        return element if outputs == 1 else (element, index)

    extreme.__doc__ = (
        f"Return the {name}imum of all elements, of two tensors, or along an axis together with its index."
    )


_register_extremes("max")
_register_extremes("min")


def _with_index(x: Expr, index: Expr, axis: int, keep: bool) -> tuple[Expr, Expr]:
    """Return the elements at ``index`` along ``axis``, and the index; remove the axis unless ``keep`` is True."""
    element = TakeAlong(axis)(x, index)
    if keep:
        return element, index
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return reshape(element, shape), reshape(index, shape)


@file_operator("torch.topk", "Tensor.topk", "aten::topk")
def topk_(input: Expr, k: int, dim: int = -1, largest: bool = True, sorted: Unused = None) -> tuple[Expr, Expr]:
    """Return the k largest or smallest elements along the axis ``dim`` in sorted order, and their indices."""
    return topk(input, k, dim, largest)


Flags = bool | int | None
"""dim or descending; at level 0, a stable sort has another flag before them, which is ignored: all sorts are stable"""


def _order(x: Expr, *arguments: Flags) -> tuple[int, bool]:
    """Return the axis, and whether the order is descending."""
    dim, descending = arguments[1:] if arguments[2] is not None else arguments[:2]
    if isinstance(dim, bool) or not isinstance(dim, int) or not isinstance(descending, bool):
        raise OperandError(
            f"dim={dim!r}, descending={descending!r}", rule="dim must be an integer, and descending True or False"
        )
    return normalize_axis(dim, x.ndim, "sort"), descending


@file_operator("torch.sort", "Tensor.sort", "aten::sort")
def sort(
    input: Expr, dim: Flags = -1, descending: Flags = False, last: Flags = None, *, stable: Unused
) -> tuple[Expr, Expr]:
    """Sort the elements along an axis; return the sorted elements and their indices."""
    axis, descends = _order(input, dim, descending, last)
    indices = argsort(input, axis, descends)
    return TakeAlong(axis)(input, indices), indices


@file_operator("torch.argsort", "Tensor.argsort", "aten::argsort")
def argsort_(input: Expr, dim: Flags = -1, descending: Flags = False, last: Flags = None, *, stable: Unused) -> Expr:
    """Return the indices that sort the elements along an axis."""
    return argsort(input, *_order(input, dim, descending, last))


@file_operator("torch.msort", "aten::msort")
def msort(input: Expr) -> Expr:
    """Sort the elements along the first axis."""
    return TakeAlong(0)(input, argsort(input, 0))


@file_operator("aten::median")
def median(input: Expr, dim: int | None = None, keepdim: bool = False) -> Expr | tuple[Expr, Expr]:
    """Return the lower median of all elements, or along ``dim`` together with its index; NaN if there is a NaN."""
    if dim is None:
        return _median(reshape(input, (input.size,)), 0, False)[0]
    return _median(input, normalize_axis(dim, input.ndim, "median"), keepdim)


@file_operator("aten::kthvalue")
def kthvalue(input: Expr, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Expr, Expr]:
    """Return the k-th smallest element along the axis ``dim``, and its index."""
    return _kth(input, k - 1, normalize_axis(dim, input.ndim, "kthvalue"), keepdim)


def _median(x: Expr, axis: int, keep: bool) -> tuple[Expr, Expr]:
    middle = (x.shape[axis] - 1) // 2
    if x.dtype.kind != "f" or middle < 0:
        return _kth(x, middle, axis, keep)
    # NaN is sorted last
    count = sum(cast(x == x, np.dtype(np.int64)), (axis,), keepdims=True)
    rank = where(count < x.shape[axis], count, middle)
    return _with_index(x, TakeAlong(axis)(argsort(x, axis), rank), axis, keep)


def _kth(x: Expr, rank: int, axis: int, keep: bool) -> tuple[Expr, Expr]:
    if not 0 <= rank < x.shape[axis]:
        raise OperandError(
            f"element {rank + 1} of {x.type} along axis {axis}", rule="k must not exceed the number of elements"
        )
    return _with_index(x, argsort(x, axis)[(*[slice(None)] * axis, slice(rank, rank + 1))], axis, keep)


@file_operator("torch.quantile", "aten::quantile")
def quantile(
    input: Expr,
    q: float,
    dim: int | None = None,
    keepdim: bool = False,
    interpolation: Literal["linear", "lower", "higher", "nearest", "midpoint"] = "linear",
) -> Expr:
    """Return the q-quantile of all elements or along the axis ``dim``, interpolated between two elements."""
    if not 0 <= q <= 1 or input.dtype.kind != "f" or not input.size:
        raise OperandError(
            f"q={q!r} of {input.type}", rule="q must be in 0 … 1, and the operand floating-point and not empty"
        )
    x, axis = (
        (reshape(input, (input.size,)), 0) if dim is None else (input, normalize_axis(dim, input.ndim, "quantile"))
    )
    # the rank is computed in the operand's dtype, as in torch
    rank = x.dtype.type(q) * x.dtype.type(x.shape[axis] - 1)
    ordered = TakeAlong(axis)(x, argsort(x, axis))
    front = (slice(None),) * axis
    low, high = (ordered[(*front, slice(int(each), int(each) + 1))] for each in (np.floor(rank), np.ceil(rank)))
    result: Any = low + (high - low) * _FRACTIONS[interpolation](rank)
    # NaN is sorted last
    result = where(any(x != x, axis, keepdims=True), np.nan, where(low == high, low, result))
    if dim is None:
        return reshape(result, (1,) * input.ndim if keepdim else ())
    return result if keepdim else squeeze(result, axis)
