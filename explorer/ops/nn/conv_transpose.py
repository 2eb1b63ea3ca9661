"""Transposed convolutions: the adjoints of convolutions, as ``conv_transpose2d`` of frameworks.

A convolution's gradient for its images is this very function of the upstream gradient, so both share one operation.

Frameworks order their filters (C, O / groups, h, w), from input to output channels. For the convolution whose adjoint
it is, C is the output, so that these are its filters (O, C / groups, h, w) unchanged. Sequences are images of height 1,
volumes a sum over the planes of their filters, as in ``conv``. (ONNX: ConvTranspose; PNNX: nn.ConvTranspose1d and 2d,
F.conv_transpose1d and 2d.)
"""

from __future__ import annotations

import math
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, as_operands
from explorer.core.memory_budget import claim_steps
from explorer.core.registry import public
from explorer.core.types.tensor_type import whole
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.elementwise.arithmetic import add_n
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.reshape import reshape, transpose
from explorer.ops.manipulation.slicing import part_of
from explorer.ops.nn.conv import FIRST_ROW, Conv2dImageGradient, as_images, check_ranks, plus_bias
from explorer.ops.nn.kernels.window import Lengths, Padding, Pair, Window, for_each, window_of

__all__ = ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

_PHASE = 16
"""number of operators that a phase of a transposed convolution counts as, since it is a convolution of its own"""


@public
def conv_transpose1d(
    x: Any,
    filters: Any,
    bias: Any = None,
    *,
    strides: int = 1,
    padding: int | Pair = 0,
    output_padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Expr:
    """Compute the adjoint of ``conv1d``: (N, C, L), filters (C, O / groups, l) → (N, O, L′).

    >>> ex.evaluate(ex.conv_transpose1d(np.ones((1, 1, 2)), np.ones((1, 1, 3)), strides=2))
    array([[[1., 1., 2., 1., 1.]]])
    """
    return conv_transpose(x, filters, bias, 1, strides, padding, output_padding, dilation, groups)


@public
def conv_transpose2d(
    x: Any,
    filters: Any,
    bias: Any = None,
    *,
    strides: int | Lengths = 1,
    padding: int | Lengths | Padding = 0,
    output_padding: int | Lengths = 0,
    dilation: int | Lengths = 1,
    groups: int = 1,
) -> Expr:
    """Compute the adjoint of a convolution: (N, C, H, W), filters (C, O / groups, h, w) → (N, O, H′, W′), plus a bias
    (O,).

    H′ = (H − 1) · stride − padding + dilation · (h − 1) + 1 + output_padding, where output_padding is smaller than the
    stride or the dilation.

    A result pixel is the sum of the products that a convolution with these filters would make of it. Raises
    OperandError for a result without pixels.

    >>> x, filters = ex.tensor(np.ones((1, 1, 2, 2))), ex.tensor(np.ones((1, 1, 2, 2)))
    >>> ex.evaluate(ex.conv_transpose2d(x, filters))
    array([[[[1., 2., 1.],
             [2., 4., 2.],
             [1., 2., 1.]]]])
    """
    return conv_transpose(x, filters, bias, 2, strides, padding, output_padding, dilation, groups)


@public
def conv_transpose3d(
    x: Any,
    filters: Any,
    bias: Any = None,
    *,
    strides: int | Lengths = 1,
    padding: int | tuple[Any, ...] = 0,
    output_padding: int | Lengths = 0,
    dilation: int | Lengths = 1,
    groups: int = 1,
) -> Expr:
    """Compute the adjoint of ``conv3d``: (N, C, D, H, W), filters (C, O / groups, d, h, w) → (N, O, D′, H′, W′).

    Each option is one number for all three axes, or one for each; padding may also be a pair (before, after) for each.
    ``output_padding`` is smaller than the stride or the dilation. Raises OperandError for a result without elements.
    (ONNX: ConvTranspose; PNNX: nn.ConvTranspose3d, F.conv_transpose3d.)

    >>> ex.conv_transpose3d(np.ones((1, 2, 3, 4, 5)), np.ones((2, 6, 2, 2, 2)), strides=2).shape
    (1, 6, 6, 8, 10)
    """
    return conv_transpose(x, filters, bias, 3, strides, padding, output_padding, dilation, groups)


def conv_transpose(
    x: Any,
    filters: Any,
    bias: Any = None,
    axes: int = 2,
    strides: int | Lengths = 1,
    padding: int | tuple[Any, ...] = 0,
    output_padding: int | Lengths = 0,
    dilation: int | Lengths = 1,
    groups: int = 1,
) -> Expr:
    """Compute the adjoint of ``conv`` along one to three axes: (N, C, …), filters (C, O / groups, …), plus a bias (O,).

    The arguments are those of ``conv``; ``output_padding`` is one number for all axes, or one for each. Raises
    OperandError for operands of other ranks, and for a result without elements.
    """
    x, filters = as_operands((x, filters))
    name, count = f"conv_transpose{axes}d", whole(groups, "groups")
    check_ranks(name, x, filters, axes, "C, O / groups")
    window = window_of(1, axes, strides, padding, dilation)._replace(size=filters.shape[2:])
    extra = for_each(output_padding, axes, "output_padding")
    if x.shape[1] != filters.shape[0]:
        raise OperandError(
            f"{name} of {x.type} with filters {filters.type}",
            rule=f"filters (C, O / groups, …) must have the {x.shape[1]} channels of x along axis 0",
            fix="the filters of a transposed convolution have the input's channels first",
        )
    wrong = window.wrong()
    limits = [max(both) for both in zip(window.strides, window.dilation, strict=True)]
    if not wrong and any(not 0 <= more < limit for more, limit in zip(extra, limits, strict=True)):
        wrong = "output_padding must not be negative and must be smaller than the stride or the dilation"
    if wrong:
        raise OperandError(
            f"{name}: strides {window.strides}, padding {window.padding}, output_padding {extra}, dilation "
            f"{window.dilation}",
            rule=wrong,
            fix="strides=1, padding=0, output_padding=0, dilation=1",
        )
    size = [
        (length - 1) * step - sum(sides) + gap * (taps - 1) + 1 + more
        for length, step, sides, gap, taps, more in zip(
            x.shape[2:], window.strides, window.padding, window.dilation, window.size, extra, strict=True
        )
    ]
    if min(size) < 1 or 0 in x.shape[2:]:
        raise OperandError(
            f"{name} of {x.type}, filters {filters.type}, strides {window.strides}, padding {window.padding}",
            rule=f"the result must have at least one element, not {' × '.join(map(str, size))} along its axes",
            fix="padding=0, or less padding",
        )
    if axes == 1:
        image = window.as_image()
        around, more = image.padding, (0, *extra)
        y = conv_transpose(*as_images(x, filters), bias, 2, image.strides, around, more, image.dilation, count)
        return part_of(y, FIRST_ROW)
    if axes == 2:
        return plus_bias(_transposed(x, filters, window, extra, size, count), bias)
    return _transposed_by_planes(x, filters, bias, window=window, extra=extra, length=size[0], groups=count)


def _transposed(x: Expr, filters: Expr, window: Window, extra: Lengths, size: list[int], groups: int) -> Expr:
    """Compute the adjoint of a convolution of images; ``size`` is the result's height and width."""
    steps, sides, zeros = window.strides, [*window.padding], [0, 0]
    # from the stride on a convolution of the result would have more windows than x has pixels: less is cut off at the
    # end instead, and zeros are added
    for axis, (more, step, (before, after)) in enumerate(zip(extra, steps, window.padding, strict=True)):
        if more >= step:
            less = min(more, after)
            sides[axis], zeros[axis] = (before, after - less), more - less
    size = [length - added for length, added in zip(size, zeros, strict=True)]
    # the kernel makes a convolution for each phase, and a tap of each row and column: both are counted before any
    # exists
    phases = [min(step, length) for step, length in zip(steps, size, strict=True)]
    taps = [phase * min(step, taken) for phase, step, taken in zip(phases, steps, window.size, strict=True)]
    claim_steps("a transposed convolution", _PHASE * math.prod(phases) + sum(taps))
    shape = (x.shape[0], filters.shape[1] * groups, *size)
    y = Conv2dImageGradient(steps, tuple(sides), window.dilation, groups, shape)(x, filters)
    return padded(y, ((0, 0), (0, 0), *[(0, more) for more in zeros])) if any(zeros) else y


@rounded_once
def _transposed_by_planes(
    x: Expr, filters: Expr, bias: Any, *, window: Window, extra: Lengths, length: int, groups: int
) -> Expr:
    """Compute the adjoint of a convolution of volumes, ``length`` planes, as a sum over the planes of the filters.

    The results of each plane are moved ``strides`` apart along the depth, and by the plane's place among the filters.
    The sum of all is cut to the wanted depth.
    """
    members, channels, depth = x.shape[:3]
    step, (low, high), gap, plane = window.strides[0], window.padding[0], window.dilation[0], window.plane()
    reach = length + low + high
    images = reshape(transpose(x, (0, 2, 1, 3, 4)), (members * depth, channels, *x.shape[3:]))
    claim_steps("a transposed convolution of volumes", window.size[0])

    def layers(tap: int) -> Expr:
        part = part_of(filters, (slice(None), slice(None), tap))
        y = conv_transpose(images, part, None, 2, plane.strides, plane.padding, extra[1:], plane.dilation, groups)
        rest = y.shape[1:]
        even = ((0, 0),) * len(rest)
        # zeros between the layers, then around them
        apart = padded(reshape(y, (members, depth, 1, *rest)), ((0, 0), (0, 0), (0, step - 1), *even))
        between = reshape(apart, (members, depth * step, *rest))
        filled = part_of(between, (slice(None), slice(step * (depth - 1) + 1)))
        before = gap * tap
        return padded(filled, ((0, 0), (before, reach - before - filled.shape[1]), *even))

    total = add_n(*[layers(tap) for tap in range(window.size[0])])
    return plus_bias(transpose(part_of(total, (slice(None), slice(low, reach - high))), (0, 2, 1, 3, 4)), bias)
