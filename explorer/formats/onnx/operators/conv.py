"""Convolution of signals and images.

(Conv since opset 1, ConvTranspose since opset 1, both last changed in opset 22 for dtypes alone.) ConvTranspose's
``output_shape`` and ``auto_pad`` say how large the result is instead of how much is cut off; ``_cut`` finds the cut.
"""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.operator_inputs import given, optional
from explorer.formats.onnx.operators.table import operator
from explorer.formats.onnx.operators.window_attributes import as_image, like, padding, pair
from explorer.net.operators.context import OperatorContext
from explorer.ops.nn.conv import conv2d
from explorer.ops.nn.conv_transpose import conv_transpose2d
from explorer.ops.nn.kernels.window import Padding, Pair


@operator("Conv")
def convolution(op: OperatorContext) -> Expr:
    """Cross-correlation with filters W plus a bias B; a signal is an image of one row."""
    x, filters = given(op, "X"), given(op, "W")
    if filters.ndim != x.ndim:
        raise OperandError(f"given {x.type} and filters {filters.type}", rule="the filters must have as many axes as X")
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


@operator("ConvTranspose")
def transposed_convolution(op: OperatorContext) -> Expr:
    """The adjoint of a convolution with filters W, plus a bias B."""
    x, filters = given(op, "X"), given(op, "W")
    if filters.ndim != x.ndim:
        raise OperandError(f"given {x.type} and filters {filters.type}", rule="the filters must have as many axes as X")
    image, window = as_image(op, x), as_image(op, filters)
    strides, dilation = pair(op, x, "strides"), pair(op, x, "dilations")
    extra = pair(op, x, "output_padding", 0)
    reach = [
        step * (length - 1) + gap * (size - 1) + 1 + more
        for step, length, gap, size, more in zip(
            strides, image.shape[2:], dilation, window.shape[2:], extra, strict=True
        )
    ]
    y = conv_transpose2d(
        image,
        window,
        optional(op, "B"),
        strides=strides,
        padding=_cut(op, x, image, strides, (reach[0], reach[1])),
        output_padding=extra,
        dilation=dilation,
        groups=op.integer("group", 1),
    )
    return like(x, y)


def _cut(op: OperatorContext, x: Expr, image: Expr, strides: Pair, reach: Pair) -> Padding:
    """Return the pixels cut off at each side: as the file says, or so many that the result has the wanted size."""
    auto = op.argument("auto_pad", "NOTSET")
    if auto in ("NOTSET", "VALID") and not op.has("output_shape"):
        return padding(op, x, (1, 1), strides, (1, 1))
    target: Pair = (image.shape[2] * strides[0], image.shape[3] * strides[1])
    if op.has("output_shape"):
        sizes = (1, *op.integers("output_shape"))[-2:]
        target = (sizes[0], sizes[1])
    cuts = []
    for length, goal in zip(reach, target, strict=True):
        total = length - goal
        small, large = total // 2, total - total // 2
        # an odd pixel: the standard cuts it at the end for SAME_UPPER, else at the start
        cuts.append((small, large) if auto == "SAME_UPPER" else (large, small))
    return cuts[0], cuts[1]
