"""Transposed convolutions of volumes, composed of those of images: one for each depth of the filters.

Each result lies ``strides`` apart along the depth, moved by its depth; the sum of all is cut to the wanted size.
"""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import as_operands
from explorer.core.memory_budget import claim_steps
from explorer.core.registry import public
from explorer.core.types.tensor_type import whole
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.elementwise.arithmetic import add_n
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.reshape import reshape, transpose
from explorer.ops.manipulation.slicing import part_of
from explorer.ops.nn.conv import plus_bias
from explorer.ops.nn.conv_transpose import conv_transpose2d
from explorer.ops.nn.kernels.window import for_each, pair

__all__ = ["conv_transpose3d"]


@public
@rounded_once
def conv_transpose3d(
    x: Any,
    filters: Any,
    bias: Any = None,
    *,
    strides: int | tuple[int, ...] = 1,
    padding: int | tuple[Any, ...] = 0,
    output_padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Expr:
    """Compute the adjoint of ``conv3d``: (N, C, D, H, W), filters (C, O / groups, d, h, w) → (N, O, D′, H′, W′).

    Each option is one number for all three axes, or one for each; padding may also be a pair (before, after) for each.
    ``output_padding`` is smaller than the stride or the dilation. Raises OperandError for a result without elements.
    (ONNX: ConvTranspose; PNNX: nn.ConvTranspose3d, F.conv_transpose3d.)

    >>> ex.conv_transpose3d(np.ones((1, 2, 3, 4, 5)), np.ones((2, 6, 2, 2, 2)), strides=2).shape
    (1, 6, 6, 8, 10)
    """
    x, filters = as_operands((x, filters))
    if x.ndim != 5 or filters.ndim != 5:
        raise OperandError(
            f"conv_transpose3d of {x.type} with filters {filters.type}",
            rule="volumes must be (N, C, D, H, W), filters (C, O / groups, d, h, w)",
            fix="x[None] adds the axis N; the filters of a transposed convolution have the input's channels first",
        )
    steps, spread, extra = (
        [whole(number, name) for number in for_each(numbers, 3, name)]
        for name, numbers in (("strides", strides), ("dilation", dilation), ("output_padding", output_padding))
    )
    sides = [pair(side, "padding") for side in for_each(padding, 3, "padding")]
    members, channels, depth = x.shape[:3]
    taps = filters.shape[2]
    length = steps[0] * (depth - 1) + spread[0] * (taps - 1) + 1 + extra[0]
    if min(*steps, *spread) < 1 or not 0 <= extra[0] < max(steps[0], spread[0]):
        raise OperandError(
            f"conv_transpose3d: strides {strides}, dilation {dilation}, output_padding {output_padding}",
            rule="strides and dilation must be at least 1, output_padding at least 0 and smaller than the "
            "stride or the dilation",
            fix="strides=1, dilation=1, output_padding=0",
        )
    if not depth or not taps or length <= sum(sides[0]) or min(sides[0]) < 0:
        raise OperandError(
            f"conv_transpose3d of {x.type} with filters {filters.type}, of which {sides[0]} of {length} layers are cut "
            "off",
            rule="the result must have a layer at least, and at most as many as products reach",
            fix="padding=0, or less padding",
        )
    images = reshape(transpose(x, (0, 2, 1, 3, 4)), (members * depth, channels, *x.shape[3:]))
    claim_steps("a transposed convolution of volumes", taps)

    def layers(tap: int) -> Expr:
        y = conv_transpose2d(
            images,
            part_of(filters, (slice(None), slice(None), tap)),
            strides=(steps[1], steps[2]),
            padding=(sides[1], sides[2]),
            output_padding=(extra[1], extra[2]),
            dilation=(spread[1], spread[2]),
            groups=groups,
        )
        rest = y.shape[1:]
        even = ((0, 0),) * len(rest)
        # zeros between the layers, then around them
        apart = padded(reshape(y, (members, depth, 1, *rest)), ((0, 0), (0, 0), (0, steps[0] - 1), *even))
        between = reshape(apart, (members, depth * steps[0], *rest))
        filled = part_of(between, (slice(None), slice(steps[0] * (depth - 1) + 1)))
        before = spread[0] * tap
        return padded(filled, ((0, 0), (before, length - before - filled.shape[1]), *even))

    total = add_n(*[layers(tap) for tap in range(taps)])
    low, high = sides[0]
    return plus_bias(transpose(part_of(total, (slice(None), slice(low, length - high))), (0, 2, 1, 3, 4)), bias)
