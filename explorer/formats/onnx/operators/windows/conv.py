"""Convolution of signals, images and volumes.

(Conv since opset 1, ConvTranspose since opset 1, both last changed in opset 22 for dtypes alone.) ConvTranspose's
``output_shape`` and ``auto_pad`` say how large the result is instead of how much is cut off; ``_cut`` finds the cut.
"""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.windows.window_attributes import (
    Numbers,
    Sides,
    check_kernel_shape,
    check_rank,
    for_each_axis,
    padding,
)
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import optional, required
from explorer.ops.nn.conv import conv
from explorer.ops.nn.conv_transpose import conv_transpose


@operator("Conv")
def convolution(op: OperatorContext) -> Expr:
    """Cross-correlation with filters W plus a bias B; a signal is an image of one row."""
    return convolved(op, required(op, "X"), required(op, "W"), optional(op, "B"))


def convolved(op: OperatorContext, x: Expr, filters: Expr, bias: Expr | None) -> Expr:
    """Convolve with the strides, padding, dilation and groups of an operator."""
    _check(op, x, filters)
    size = filters.shape[2:]
    strides, dilation = for_each_axis(op, x, "strides"), for_each_axis(op, x, "dilations")
    sides, groups = padding(op, x, size, strides, dilation), op.integer("group", 1)
    return conv(x, filters, bias, x.ndim - 2, strides, sides, dilation, groups)


def _check(op: OperatorContext, x: Expr, filters: Expr) -> None:
    check_rank(op, x)
    if filters.ndim != x.ndim:
        raise OperandError(
            f"an operand {x.type} and filters {filters.type}", rule="the filters must have as many axes as X"
        )
    check_kernel_shape(op, filters)


@operator("ConvTranspose")
def transposed_convolution(op: OperatorContext) -> Expr:
    """The adjoint of a convolution with filters W, plus a bias B."""
    x, filters = required(op, "X"), required(op, "W")
    _check(op, x, filters)
    size = filters.shape[2:]
    strides, dilation = for_each_axis(op, x, "strides"), for_each_axis(op, x, "dilations")
    extra = for_each_axis(op, x, "output_padding", 0)
    reach = tuple(
        step * (length - 1) + gap * (width - 1) + 1 + more
        for step, length, gap, width, more in zip(strides, x.shape[2:], dilation, size, extra, strict=True)
    )
    cut, bias, groups = _cut(op, x, strides, reach), optional(op, "B"), op.integer("group", 1)
    return conv_transpose(x, filters, bias, x.ndim - 2, strides, cut, extra, dilation, groups)


def _cut(op: OperatorContext, x: Expr, strides: Numbers, reach: Numbers) -> Sides:
    """Return the pixels cut off at each side: as the file says, or so many that the result has the wanted size."""
    auto, count = op.argument("auto_pad", "NOTSET"), x.ndim - 2
    if auto in ("NOTSET", "VALID") and not op.has("output_shape"):
        return padding(op, x, (1,) * count, strides, (1,) * count)
    target = tuple(length * step for length, step in zip(x.shape[2:], strides, strict=True))
    if op.has("output_shape"):
        sizes = tuple(op.integers("output_shape"))
        if len(sizes) not in (count, count + 2):  # older files list the batch and the channels, too
            raise OperandError(
                f"an operand {x.type} and output_shape {sizes}",
                rule="output_shape must hold one number for each axis after the channels",
            )
        target = sizes[-count:]
        if any(goal > length for length, goal in zip(reach, target, strict=True)):
            raise OperandError(
                f"output_shape={target}",
                rule=f"ConvTranspose: output_shape must be at most what the filters reach, {reach}",
                fix="leave output_shape out, or add output_padding",
            )
    cuts = []
    for length, goal in zip(reach, target, strict=True):
        # strides larger than the filters reach fewer pixels than SAME asks for: nothing is cut off, and none added
        total = max(length - goal, 0)
        small, large = total // 2, total - total // 2
        # an odd pixel: the standard cuts it at the end for SAME_UPPER, else at the start
        cuts.append((small, large) if auto == "SAME_UPPER" else (large, small))
    return tuple(cuts)
