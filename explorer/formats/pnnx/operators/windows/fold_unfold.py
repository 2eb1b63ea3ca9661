"""Windows of images as columns, and columns added up to images again.

Unfold gathers: each element of a column is a place in the padded image. Fold adds an image for each tap of the window.
"""

from __future__ import annotations

from math import prod

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_constant, claim_steps
from explorer.core.types.tensor_type import Array
from explorer.formats.pnnx.operators.base.arguments import sizes
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.elementwise.arithmetic import add_n
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.reshape import reshape
from explorer.ops.manipulation.slicing import SliceScatter


def _windows(op: OperatorContext, image: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of windows along both axes of an image, their strides, dilation and padding."""
    size, steps = sizes(op, "kernel_size", 2), sizes(op, "stride", 2, 1)
    gaps, sides = sizes(op, "dilation", 2, 1), sizes(op, "padding", 2, 0)
    counts = tuple(
        [
            (length + 2 * side - gap * (width - 1) - 1) // step + 1 if min(step, gap, width) > 0 and side >= 0 else 0
            for length, side, gap, width, step in zip(image, sides, gaps, size, steps, strict=True)
        ]
    )
    if min(counts) < 1:
        raise OperandError(
            f"an image of {image} with kernel_size={size}, stride={steps}, dilation={gaps}, padding={sides}",
            rule=f"{op.definition.type}: sizes, strides and dilation must be at least 1, padding at least 0, and the "
            "window must fit into the padded image",
            fix="a smaller kernel_size, or padding",
        )
    return counts, steps, gaps, sides


def _places(op: OperatorContext, image: tuple[int, ...]) -> tuple[Array, tuple[int, ...]]:
    """Return the places of the columns' elements in a padded image (tap, window), and the padding; row-major."""
    counts, steps, gaps, sides = _windows(op, image)
    size = sizes(op, "kernel_size", 2)
    claim_constant("places of windows", prod(size) * prod(counts))
    rows, columns = (
        np.arange(width)[:, None] * gap + np.arange(count) * step
        for width, gap, count, step in zip(size, gaps, counts, steps, strict=True)
    )
    places = rows[:, None, :, None] * (image[1] + 2 * sides[1]) + columns[None, :, None, :]
    return places.reshape(-1), sides


@file_operator("nn.Unfold", "F.unfold")
def unfold(op: OperatorContext) -> Expr:
    """The windows of images (N, C, H, W) as columns (N, C · h · w, windows)."""
    x = op.x
    if x.ndim not in (3, 4):
        raise OperandError(f"an operand {x.type}", rule=f"{op.definition.type}: the operand must be (N, C, H, W)")
    places, (high, wide) = _places(op, x.shape[-2:])
    around = padded(x, (*[(0, 0)] * (x.ndim - 2), (high, high), (wide, wide)))
    columns = take(reshape(around, (*x.shape[:-2], prod(around.shape[-2:]))), places, x.ndim - 2)
    taps = prod(sizes(op, "kernel_size", 2))
    return reshape(columns, (*x.shape[:-3], x.shape[-3] * taps, places.size // taps))


@file_operator("nn.Fold", "F.fold")
def fold(op: OperatorContext) -> Expr:
    """Columns (N, C · h · w, windows) added up to images (N, C, H, W) at the places of their windows."""
    x, image, size = op.x, sizes(op, "output_size", 2), sizes(op, "kernel_size", 2)
    counts, steps, gaps, sides = _windows(op, image)
    taps, windows = prod(size), prod(counts)
    if x.ndim not in (2, 3) or x.shape[-2] % taps or x.shape[-1] != windows:
        raise OperandError(
            f"an operand {x.type} for windows of {taps} elements in images of {image}",
            rule=f"{op.definition.type}: the operand must be (N, C · {taps}, {windows})",
        )
    front = (*x.shape[:-2], x.shape[-2] // taps)
    around = (*front, image[0] + 2 * sides[0], image[1] + 2 * sides[1])
    claim_steps("taps of windows", taps)
    columns = reshape(x, (*front, taps, *counts))
    whole = tuple([(0, length, 1) for length in front])
    axes = [*zip(counts, steps, gaps, strict=True)]

    def spread(tap: int) -> Expr:
        places = divmod(tap, size[1])
        spans = tuple(
            [
                (place * gap, place * gap + (count - 1) * step + 1, step)
                for place, (count, step, gap) in zip(places, axes, strict=True)
            ]
        )
        return SliceScatter((*whole, *spans), around)(columns[(*[slice(None)] * len(front), tap)])

    y = add_n(*[spread(tap) for tap in range(taps)])
    return y[..., sides[0] : sides[0] + image[0], sides[1] : sides[1] + image[1]]
