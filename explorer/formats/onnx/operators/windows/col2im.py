"""Columns of windows added up to images. (Col2Im since opset 18.)"""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import integers, required
from explorer.ops.nn.fold_unfold import fold


@operator("Col2Im")
def columns_to_images(op: OperatorContext) -> Expr:
    """Columns (N, C · taps, windows) added up to images at the places of their windows."""
    x, size, window = required(op, "input"), integers(op, "image_shape"), integers(op, "block_shape")
    count = len(size)
    strides, dilation = op.integers("strides", (1,) * count), op.integers("dilations", (1,) * count)
    pads = op.integers("pads", (0,) * (2 * count))
    if not count or {len(window), len(strides), len(dilation)} != {count} or len(pads) != 2 * count:
        raise OperandError(
            f"image_shape={size}, block_shape={window}, strides={strides}, dilations={dilation}, pads={pads}",
            rule="Col2Im: all must have a number for each axis of the image, and pads two",
        )
    sides = tuple([(pads[axis], pads[axis + count]) for axis in range(count)])
    return fold(x, size, window, strides, sides, dilation)
