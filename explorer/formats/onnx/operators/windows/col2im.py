"""Col2Im, which sums columns of windows into images (since opset 18)."""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.signature import Ints, Known
from explorer.ops.nn.fold_unfold import fold


@operator("Col2Im")
def columns_to_images(
    input: Expr,
    image_shape: Known[Ints],
    block_shape: Known[Ints],
    *,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Expr:
    """Add columns (N, C · taps, windows) at the positions of their windows in images."""
    count = len(image_shape)
    steps, gaps = strides or (1,) * count, dilations or (1,) * count
    widths = pads or (0,) * (2 * count)
    if not count or {len(block_shape), len(steps), len(gaps)} != {count} or len(widths) != 2 * count:
        raise OperandError(
            f"image_shape={image_shape}, block_shape={block_shape}, strides={steps}, dilations={gaps}, pads={widths}",
            rule="Col2Im: each must have one number for each axis of the image, except pads, which must have two",
        )
    sides = tuple([(widths[axis], widths[axis + count]) for axis in range(count)])
    return fold(input, image_shape, block_shape, steps, sides, gaps)
