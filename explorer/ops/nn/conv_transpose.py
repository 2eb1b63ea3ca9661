"""Transposed convolutions: the adjoints of convolutions, as in PyTorch's ``conv_transpose2d``.

A transposed convolution is the same operation as the gradient of a convolution with respect to its images.

Filters are (C, O / groups, h, w), with input channels first. The corresponding convolution maps O to C channels, so
this is its usual filter layout. As in ``conv``, sequences are treated as images of height 1. For volumes, the results
for all filter planes are added. (ONNX: ConvTranspose; PNNX: nn.ConvTranspose1d and 2d, F.conv_transpose1d and 2d.)
"""

from __future__ import annotations

import math
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, as_operands
from explorer.core.memory_budget import claim_steps
from explorer.core.registry import public
from explorer.core.types.tensor_type import as_integer
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.elementwise.arithmetic import add_n
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.reshape import reshape, transpose
from explorer.ops.manipulation.slicing import part_of
from explorer.ops.nn.conv import FIRST_ROW, Conv2dImageGradient, as_images, check_ranks, plus_bias
from explorer.ops.nn.kernels.window import Lengths, Padding, Pair, Window, for_each, window_of

__all__ = ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

_PHASE = 16
"""number of steps that count against the step limit for each phase of a transposed convolution"""


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
    """Compute the adjoint of ``conv2d``: (N, C, H, W), filters (C, O / groups, h, w) → (N, O, H′, W′).

    H′ = (H − 1) · stride − padding + dilation · (h − 1) + 1 + output_padding, where padding is the sum of both sides.
    ``output_padding`` must be smaller than the stride or the dilation.

    Each pixel of ``x`` is multiplied by the filters, and the products are added to one window of the result; a bias
    (O,) is added. Raises OperandError if the result has no pixels.

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

    Each option is one number for all three axes or one number for each axis; padding may also be one pair (before,
    after) for each axis. ``output_padding`` must be smaller than the stride or the dilation. Raises OperandError if the
    result is empty. (ONNX: ConvTranspose; PNNX: nn.ConvTranspose3d, F.conv_transpose3d.)

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
    """Compute the adjoint of ``conv`` along one to three axes, and add a bias (O,).

    ``x`` is (N, C, …) and ``filters`` is (C, O / groups, …). The arguments are as in ``conv``; ``output_padding`` is
    one number for all axes or one number for each axis. Raises OperandError if an operand has another rank, or if the
    result is empty.
    """
    x, filters = as_operands((x, filters))
    name, count = f"conv_transpose{axes}d", as_integer(groups, "groups")
    check_ranks(name, x, filters, axes, "C, O / groups")
    window = window_of(1, axes, strides, padding, dilation)._replace(size=filters.shape[2:])
    extra = for_each(output_padding, axes, "output_padding")
    if x.shape[1] != filters.shape[0]:
        raise OperandError(
            f"{name} of {x.type} with filters {filters.type}",
            rule=f"filters (C, O / groups, …) must have the {x.shape[1]} channels of x along axis 0",
            fix="put the input channels first, as transposed convolutions require",
        )
    problem = window.problem()
    limits = [max(both) for both in zip(window.strides, window.dilation, strict=True)]
    if not problem and any(not 0 <= extra_length < limit for extra_length, limit in zip(extra, limits, strict=True)):
        problem = "output_padding must not be negative and must be smaller than the stride or the dilation"
    if problem:
        raise OperandError(
            f"{name}: strides {window.strides}, padding {window.padding}, output_padding {extra}, dilation "
            f"{window.dilation}",
            rule=problem,
            fix="strides=1, padding=0, output_padding=0, dilation=1",
        )
    size = [
        (length - 1) * step - sum(sides) + gap * (taps - 1) + 1 + extra_length
        for length, step, sides, gap, taps, extra_length in zip(
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
        sides_around, extra_length = image.padding, (0, *extra)
        y = conv_transpose(
            *as_images(x, filters), bias, 2, image.strides, sides_around, extra_length, image.dilation, count
        )
        return part_of(y, FIRST_ROW)
    if axes == 2:
        return plus_bias(_transposed(x, filters, window, extra, size, count), bias)
    return _transposed_by_planes(x, filters, bias, window=window, extra=extra, length=size[0], groups=count)


def _transposed(x: Expr, filters: Expr, window: Window, extra: Lengths, size: list[int], groups: int) -> Expr:
    """Compute the adjoint of a convolution of images; ``size`` is the height and width of the result."""
    steps, sides, zeros = window.strides, [*window.padding], [0, 0]
    # if output_padding ≥ stride, a convolution of the result would have more windows than x has pixels, so reduce the
    # padding at the end and append zeros
    for axis, (extra_length, step, (before, after)) in enumerate(zip(extra, steps, window.padding, strict=True)):
        if extra_length >= step:
            reduced = min(extra_length, after)
            sides[axis], zeros[axis] = (before, after - reduced), extra_length - reduced
    size = [length - added for length, added in zip(size, zeros, strict=True)]
    # the kernel creates one convolution per phase, and one tap per row and column; check their number first
    phases = [min(step, length) for step, length in zip(steps, size, strict=True)]
    taps = [phase * min(step, tap_count) for phase, step, tap_count in zip(phases, steps, window.size, strict=True)]
    claim_steps("a transposed convolution", _PHASE * math.prod(phases) + sum(taps))
    shape = (x.shape[0], filters.shape[1] * groups, *size)
    y = Conv2dImageGradient(steps, tuple(sides), window.dilation, groups, shape)(x, filters)
    return padded(y, ((0, 0), (0, 0), *[(0, extra_length) for extra_length in zeros])) if any(zeros) else y


@rounded_once
def _transposed_by_planes(
    x: Expr, filters: Expr, bias: Any, *, window: Window, extra: Lengths, length: int, groups: int
) -> Expr:
    """Compute the adjoint of a volume convolution as a sum over the planes of the filters.

    The result has ``length`` planes. The planes computed from each plane of the filters are spaced by the stride along
    the depth and shifted by the index of this filter plane; then they are added and cropped.
    """
    batch_size, channels, depth = x.shape[:3]
    step, (low, high), gap, plane = window.strides[0], window.padding[0], window.dilation[0], window.plane()
    reach = length + low + high
    images = reshape(transpose(x, (0, 2, 1, 3, 4)), (batch_size * depth, channels, *x.shape[3:]))
    claim_steps("a transposed convolution of volumes", window.size[0])

    def spread_planes(tap: int) -> Expr:
        part = part_of(filters, (slice(None), slice(None), tap))
        y = conv_transpose(images, part, None, 2, plane.strides, plane.padding, extra[1:], plane.dilation, groups)
        rest = y.shape[1:]
        even = ((0, 0),) * len(rest)
        # insert zeros between the planes, then before and after them
        spread = padded(reshape(y, (batch_size, depth, 1, *rest)), ((0, 0), (0, 0), (0, step - 1), *even))
        between = reshape(spread, (batch_size, depth * step, *rest))
        filled = part_of(between, (slice(None), slice(step * (depth - 1) + 1)))
        before = gap * tap
        return padded(filled, ((0, 0), (before, reach - before - filled.shape[1]), *even))

    total = add_n(*[spread_planes(tap) for tap in range(window.size[0])])
    return plus_bias(transpose(part_of(total, (slice(None), slice(low, reach - high))), (0, 2, 1, 3, 4)), bias)
