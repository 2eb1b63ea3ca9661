"""Transposed convolutions of volumes, composed of those of images: one for each depth of the filters.

Each result lies ``strides`` apart along the depth, moved by its depth; the sum of all is cut to the wanted size.
"""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_steps
from explorer.formats.onnx.operators.windows.window_attributes import Numbers, Sides
from explorer.ops.elementwise.arithmetic import add_n
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.reshape import reshape, transpose
from explorer.ops.nn.conv_1d_3d import plus_bias
from explorer.ops.nn.conv_transpose import conv_transpose2d


def transposed_over_volumes(
    x: Expr,
    filters: Expr,
    bias: Expr | None,
    strides: Numbers,
    sides: Sides,
    extra: Numbers,
    dilation: Numbers,
    groups: int,
) -> Expr:
    """Compute the adjoint of a convolution of volumes: (N, C, D, H, W), filters (C, O / groups, d, h, w).

    ``extra`` is the output padding. Raises OperandError for a result without layers.
    """
    members, channels, depth = x.shape[:3]
    taps = filters.shape[2]
    length = strides[0] * (depth - 1) + dilation[0] * (taps - 1) + 1 + extra[0]
    if not depth or not taps or length <= sum(sides[0]) or min(sides[0]) < 0:
        raise OperandError(
            f"an operand {x.type} with filters {filters.type}, of which {sides[0]} of {length} layers are cut off",
            rule="ConvTranspose: the result must have a layer at least, and at most as many as products reach",
        )
    images = reshape(transpose(x, (0, 2, 1, 3, 4)), (members * depth, channels, *x.shape[3:]))
    claim_steps("a transposed convolution of volumes", taps)

    def layers(tap: int) -> Expr:
        y = conv_transpose2d(
            images,
            filters[:, :, tap],
            strides=(strides[1], strides[2]),
            padding=(sides[1], sides[2]),
            output_padding=(extra[1], extra[2]),
            dilation=(dilation[1], dilation[2]),
            groups=groups,
        )
        rest = y.shape[1:]
        even = ((0, 0),) * len(rest)
        # zeros between the layers, then around them
        apart = padded(reshape(y, (members, depth, 1, *rest)), ((0, 0), (0, 0), (0, strides[0] - 1), *even))
        whole = reshape(apart, (members, depth * strides[0], *rest))[:, : strides[0] * (depth - 1) + 1]
        before = dilation[0] * tap
        return padded(whole, ((0, 0), (before, length - before - whole.shape[1]), *even))

    total = add_n(*[layers(tap) for tap in range(taps)])
    low, high = sides[0]
    return plus_bias(transpose(total[:, low : length - high], (0, 2, 1, 3, 4)), bias)
