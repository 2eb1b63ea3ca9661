"""Convolutions whose taps are moved by offsets.

(DeformConv since opset 19, last changed in opset 22 for dtypes alone.)
"""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.windows.window_attributes import check_kernel_shape, for_each_axis, padding
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import optional, required
from explorer.ops.nn.deform_conv import deform_conv2d


@operator("DeformConv")
def deformable_convolution(op: OperatorContext) -> Expr:
    """Convolution with filters W, each tap of which is moved by an offset and multiplied by a mask, plus a bias B."""
    x, filters, offset = required(op, "X"), required(op, "W"), required(op, "offset")
    if x.ndim != 4 or filters.ndim != 4 or offset.ndim != 4:
        raise OperandError(
            f"X {x.type}, W {filters.type}, offset {offset.type}",
            rule="DeformConv: images, filters and offsets must have four axes; other ranks are not implemented",
        )
    check_kernel_shape(op, filters)
    size, parts = filters.shape[2:], op.integer("offset_group", 1)
    if offset.shape[1] != 2 * parts * size[0] * size[1]:
        raise OperandError(
            f"offset {offset.type} with offset_group={parts} and filters {filters.type}",
            rule="DeformConv: offsets must have two channels for each tap of each offset group",
        )
    strides, dilation = for_each_axis(op, x, "strides"), for_each_axis(op, x, "dilations")
    sides = padding(op, x, size, strides, dilation)
    return deform_conv2d(
        x,
        filters,
        offset,
        optional(op, "mask"),
        optional(op, "B"),
        strides=(strides[0], strides[1]),
        padding=(sides[0], sides[1]),
        dilation=(dilation[0], dilation[1]),
        groups=op.integer("group", 1),
    )
