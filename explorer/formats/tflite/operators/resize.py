"""Images (N, H, W, C) of another height and width."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.formats.common.known_inputs import integers, required
from explorer.formats.common.operator_checks import with_rank
from explorer.formats.tflite.operators.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.manipulation.gather import take
from explorer.ops.nn.resize import resize


def _image(op: OperatorContext) -> tuple[Expr, tuple[int, int], bool, bool]:
    """Return the image, its new height and width, and how positions are counted."""
    x, size = with_rank(op, "input", required(op, "input"), "N", "H", "W", "C"), integers(op, "size")
    align, half = op.flag("align_corners", False), op.flag("half_pixel_centers", False)
    if len(size) != 2 or min(size) < 1 or min(x.shape[1:3]) < 1 or (align and half):
        raise OperandError(
            f"input is {x.type}, size={size}, align_corners={align}, half_pixel_centers={half}",
            rule=f"{op.definition.type}: size must be a height and a width, 1 or more, and one of both options at most",
        )
    return x, (size[0], size[1]), align, half


@operator("RESIZE_BILINEAR")
def resize_bilinear(op: OperatorContext) -> Expr:
    """Pixels between the two nearest, row by row and column by column."""
    x, size, align, half = _image(op)
    if x.dtype.kind != "f":
        raise OperandError(f"input is {x.type}", rule="RESIZE_BILINEAR: the image must be of real numbers")
    coordinates = "align_corners" if align else "half_pixel" if half else "asymmetric"
    return resize(x, size, (1, 2), method="linear", coordinates=coordinates)


@operator("RESIZE_NEAREST_NEIGHBOR", moves=True)
def resize_nearest(op: OperatorContext) -> Expr:
    """The nearest pixel by TensorFlow Lite's single precision, in which some positions fall to the next one."""
    x, size, align, half = _image(op)
    for axis, new in zip((1, 2), size, strict=True):
        old = x.shape[axis]
        claim_constant("RESIZE_NEAREST_NEIGHBOR", new)
        step = np.float32(old - 1) / np.float32(new - 1) if align and new > 1 else np.float32(old) / np.float32(new)
        where = (np.arange(new).astype(np.float32) + np.float32(0.5 * half)) * step
        places = np.floor(where + np.float32(0.5)) if align else np.floor(where)
        x = take(x, tensor(np.clip(places, 0, old - 1).astype(np.int64)), axis)
    return x
