"""Poolings over windows of images and of sequences."""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.pnnx.operators.arguments import sizes
from explorer.formats.pnnx.operators.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.manipulation.reshape import expand_dims, squeeze
from explorer.ops.nn.adaptive_pooling import adaptive_avg_pool2d, adaptive_max_pool
from explorer.ops.nn.pooling import avg_pool2d, max_pool2d


def _axes(op: OperatorContext) -> int:
    return int(op.definition.type[-2])


def _window(op: OperatorContext, name: str, default: Any = None, filler: int = 1) -> tuple[int, int]:
    """A parameter of a window for rows and columns; a sequence is an image of one row."""
    lengths = sizes(op, name, _axes(op)) if default is None else sizes(op, name, _axes(op), default)
    return (lengths[0], lengths[1]) if len(lengths) == 2 else (filler, lengths[0])


def _image(op: OperatorContext) -> Expr:
    x, axes = op.x, _axes(op)
    if x.ndim != axes + 2:
        raise OperandError(
            f"an operand {x.type}",
            rule=f"{op.definition.type}: the operand must be (N, C, {'H, W' if axes == 2 else 'L'})",
        )
    return x if axes == 2 else expand_dims(x, 2)


def _result(op: OperatorContext, y: Expr) -> Expr:
    return y if _axes(op) == 2 else squeeze(y, 2)


def _strides(op: OperatorContext) -> tuple[int, int]:
    return _window(op, "kernel_size" if op.argument("stride", None) is None else "stride")


@file_operator("nn.MaxPool1d", "nn.MaxPool2d", "F.max_pool1d", "F.max_pool2d")
def max_pool(op: OperatorContext) -> Expr:
    """The largest element of each window."""
    op.only("return_indices", False)
    y = max_pool2d(
        _image(op),
        _window(op, "kernel_size"),
        _strides(op),
        _window(op, "padding", 0, 0),
        _window(op, "dilation", 1),
        op.flag("ceil_mode", False),
    )
    return _result(op, y)


@file_operator("nn.AvgPool1d", "nn.AvgPool2d", "F.avg_pool1d", "F.avg_pool2d")
def avg_pool(op: OperatorContext) -> Expr:
    """The mean of each window."""
    op.only("divisor_override", None)
    y = avg_pool2d(
        _image(op),
        _window(op, "kernel_size"),
        _strides(op),
        _window(op, "padding", 0, 0),
        op.flag("ceil_mode", False),
        op.flag("count_include_pad", True),
    )
    return _result(op, y)


def _output(op: OperatorContext, x: Expr) -> tuple[int, int]:
    """Return the numbers of windows along both axes; a None in the file stands for the image's own size."""
    lengths = op.argument("output_size")
    counts: tuple[Any, ...] = lengths if isinstance(lengths, tuple) else (lengths,) * _axes(op)
    if len(counts) != _axes(op) or not all(count is None or type(count) is int for count in counts):
        raise OperandError(
            f"output_size={lengths!r} for {x.type}", rule="sizes must be whole numbers or None, one for each axis"
        )
    rows, columns = counts if len(counts) == 2 else (1, counts[0])
    return x.shape[2] if rows is None else rows, x.shape[3] if columns is None else columns


@file_operator("nn.AdaptiveAvgPool1d", "nn.AdaptiveAvgPool2d", "F.adaptive_avg_pool1d", "F.adaptive_avg_pool2d")
def adaptive_avg_pool(op: OperatorContext) -> Expr:
    """The means of windows that cover the image evenly; a size None is the image's own."""
    x = _image(op)
    return _result(op, adaptive_avg_pool2d(x, _output(op, x)))


@file_operator("nn.AdaptiveMaxPool1d", "nn.AdaptiveMaxPool2d", "F.adaptive_max_pool1d", "F.adaptive_max_pool2d")
def adaptive_max_pool_(op: OperatorContext) -> Expr:
    """The largest elements of windows that cover the image evenly; a size None is the image's own."""
    op.only("return_indices", False)
    x = _image(op)
    return _result(op, adaptive_max_pool(x, _output(op, x)))
