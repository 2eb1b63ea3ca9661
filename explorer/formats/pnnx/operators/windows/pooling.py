"""Poolings over windows of sequences, images and volumes."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import Array
from explorer.formats.pnnx.operators.base.arguments import sizes
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.reshape import reshape
from explorer.ops.nn import pooling
from explorer.ops.nn.adaptive_pooling import adaptive_avg_pool, adaptive_max_pool
from explorer.ops.reduction.reduce import max
from explorer.ops.reduction.sorting import argmax

_SHAPES = {1: "L", 2: "H, W", 3: "D, H, W"}


def _axes(op: OperatorContext) -> int:
    return int(op.definition.type[-2])


def _types(name: str, function: str, axes: tuple[int, ...] = (1, 2, 3)) -> tuple[str, ...]:
    return tuple([f"{kind}{count}d" for count in axes for kind in (f"nn.{name}", f"F.{function}", f"aten::{function}")])


def _window(op: OperatorContext, name: str, *default: int) -> tuple[int, ...]:
    """A parameter of a window, one number for each axis."""
    return sizes(op, name, _axes(op), *default)


def _x(op: OperatorContext) -> Expr:
    x, axes = op.x, _axes(op)
    if x.ndim != axes + 2:
        raise OperandError(
            f"an operand {x.type}", rule=f"{op.definition.type}: the operand must be (N, C, {_SHAPES[axes]})"
        )
    return x


def _strides(op: OperatorContext) -> tuple[int, ...]:
    return _window(op, "kernel_size" if op.argument("stride", None) in (None, ()) else "stride")


@file_operator(*_types("MaxPool", "max_pool"))
def max_pool(op: OperatorContext) -> Any:
    """The largest element of each window, and its place where it is asked for."""
    x, size, steps = _x(op), _window(op, "kernel_size"), _strides(op)
    sides, gaps = _window(op, "padding", 0), _window(op, "dilation", 1)
    y = pooling.max_pool(x, _axes(op), size, steps, sides, gaps, op.flag("ceil_mode", False))
    if not op.flag("return_indices", False):
        return y
    spans = [window_spans(*each) for each in zip(x.shape[2:], y.shape[2:], size, steps, sides, gaps, strict=True)]
    return y, window_places(x, spans)


@file_operator(*_types("AvgPool", "avg_pool"))
def avg_pool(op: OperatorContext) -> Expr:
    """The mean of each window, or its sum divided by a number."""
    counted = op.flag("count_include_pad", True)
    if op.argument("divisor_override", None) is None:
        return _means(op, _x(op), op.flag("ceil_mode", False), counted)
    divisor = op.integer("divisor_override")
    if divisor == 0:
        raise OperandError("divisor_override=0", rule=f"{op.definition.type}: divisor_override must not be 0")
    return _sums(op) / divisor


def _means(op: OperatorContext, x: Expr, ceil: bool, counted: bool = True) -> Expr:
    size, sides = _window(op, "kernel_size"), _window(op, "padding", 0)
    return pooling.avg_pool(x, _axes(op), size, _strides(op), sides, ceil, counted)


def _sums(op: OperatorContext) -> Expr:
    """The sum of each window, of which the last one may reach beyond the padding."""
    x, size, steps, sides = _x(op), _window(op, "kernel_size"), _strides(op), _window(op, "padding", 0)
    counts = _means(op, x, op.flag("ceil_mode", False)).shape[2:]
    # zeros behind the padding, until the last window fits into them: then each mean is of a whole window
    ends = [
        builtins.max((count - 1) * step + width - length - 2 * side, 0)
        for count, step, width, length, side in zip(counts, steps, size, x.shape[2:], sides, strict=True)
    ]
    return _means(op, padded(x, ((0, 0), (0, 0), *[(0, end) for end in ends])), False) * math.prod(size)


@file_operator(*_types("LPPool", "lp_pool"))
def norm_pool(op: OperatorContext) -> Expr:
    """(Σ xᵖ)^(1/p) of each window; one that reaches beyond the edge counts as if its mean filled it, as in torch."""
    power = op.number("norm_type")
    if power == 0:
        raise OperandError("norm_type=0", rule=f"{op.definition.type}: norm_type must not be 0")
    means = _means(op, _x(op) ** power, op.flag("ceil_mode", False))
    return (means * math.prod(_window(op, "kernel_size"))) ** (1 / power)


def _output(op: OperatorContext, x: Expr) -> tuple[int, ...]:
    """Return the numbers of windows along each axis; a None stands for the axis' own size, which pnnx writes as 0."""
    lengths, axes = op.argument("output_size"), _axes(op)
    counts: tuple[Any, ...] = lengths if isinstance(lengths, tuple) else (lengths,) * axes
    if len(counts) != axes or not all(count is None or type(count) is int for count in counts):
        raise OperandError(
            f"output_size={lengths!r} for {x.type}", rule="sizes must be whole numbers or None, one for each axis"
        )
    return tuple([count or size for count, size in zip(counts, x.shape[2:], strict=True)])


@file_operator(*_types("AdaptiveAvgPool", "adaptive_avg_pool"))
def adaptive_avg_pool_(op: OperatorContext) -> Expr:
    """The means of windows that cover the operand evenly; a size None is its own."""
    x = _x(op)
    return adaptive_avg_pool(x, _axes(op), _output(op, x))


@file_operator(*_types("AdaptiveMaxPool", "adaptive_max_pool"))
def adaptive_max_pool_(op: OperatorContext) -> Any:
    """The largest elements of windows that cover the operand evenly, and their places; a size None is its own."""
    x = _x(op)
    counts = _output(op, x)
    y = adaptive_max_pool(x, counts)
    if not op.flag("return_indices", False):
        return y
    spans = [even_spans(*each) for each in zip(x.shape[2:], counts, strict=True)]
    return y, window_places(x, spans)


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
