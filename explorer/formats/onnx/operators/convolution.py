"""Convolution of signals and images."""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.expr import Expr
from explorer.formats.onnx.operators.table import operator
from explorer.formats.onnx.operators.values import given, optional
from explorer.formats.onnx.operators.windows import as_image, like, padding, pair
from explorer.net.context import OperatorContext
from explorer.ops.conv import conv2d


@operator("Conv")
def convolution(op: OperatorContext) -> Expr:
    """Cross-correlation with filters W plus a bias B; a signal is an image of one row."""
    x, filters = given(op, "X"), given(op, "W")
    if filters.ndim != x.ndim:
        raise OperandError(f"given {x.type} and filters {filters.type}", rule="filters have as many axes as X")
    image, window = as_image(op, x), as_image(op, filters)
    size = window.shape[2], window.shape[3]
    strides, dilation = pair(op, x, "strides"), pair(op, x, "dilations")
    y = conv2d(
        image,
        window,
        optional(op, "B"),
        strides=strides,
        padding=padding(op, x, size, strides, dilation),
        dilation=dilation,
        groups=op.integer("group", 1),
    )
    return like(x, y)
