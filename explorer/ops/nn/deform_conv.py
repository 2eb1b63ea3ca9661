"""Deformable convolution: a convolution in which each filter tap is shifted by its own offset.

Pixels are sampled at the shifted positions as in ``grid_sample``, and multiplied by the filters in one product. (Dai et
al., Deformable Convolutional Networks, 2017; masks: Zhu et al., Deformable ConvNets v2, 2019.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, as_operands
from explorer.core.ir.policy_operations import composition
from explorer.core.ir.tensor import tensor
from explorer.core.policy import Items
from explorer.core.registry import public
from explorer.core.types.tensor_type import as_integer
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.elementwise.arithmetic import maximum, minimum
from explorer.ops.linalg.matmul import matmul
from explorer.ops.manipulation.reshape import reshape
from explorer.ops.nn.conv import plus_bias
from explorer.ops.nn.kernels.window import Lengths, Padding, window_of
from explorer.ops.nn.sampling import sampled

__all__ = ["deform_conv2d"]


@public
@composition
@rounded_once
def deform_conv2d(
    x: Any,
    filters: Any,
    offset: Any,
    mask: Any = None,
    bias: Any = None,
    *,
    strides: int | Lengths = 1,
    padding: int | Lengths | Padding = 0,
    dilation: int | Lengths = 1,
    groups: int = 1,
    policies: Items = (),
) -> Expr:
    """Convolve ``x`` (N, C, H, W) with filters (O, C / groups, h, w) whose taps are shifted.

    The result is (N, O, H′, W′). ``offset`` (N, G · h · w · 2, H′, W′) contains the rows and columns by which each tap
    is shifted, for each of G groups of channels. ``mask`` (N, G · h · w, H′, W′) contains a factor for each tap; if it
    is None, all factors are 1. Positions between pixels are interpolated bilinearly; pixels outside the image are 0.
    Raises OperandError if the shapes do not match. (ONNX: DeformConv; PNNX: torchvision.ops.DeformConv2d.)

    >>> x, filters = ex.tensor(np.ones((1, 1, 4, 4))), ex.tensor(np.ones((1, 1, 2, 2)))
    >>> ex.evaluate(ex.deform_conv2d(x, filters, np.full((1, 8, 3, 3), 0.5)))[0, 0, 0]
    array([4., 4., 3.])
    """
    x, filters, offset = as_operands((x, filters, offset))
    groups = as_integer(groups, "groups")
    _check(x, filters, offset, groups)
    window = window_of(1, 2, strides, padding, dilation)._replace(size=filters.shape[2:])
    problem = window.problem()
    if problem:
        raise _shape_error(x, filters, offset, problem)
    images, channels, *lengths = x.shape
    height, width = window.size
    taps = height * width
    rows, columns = window.output(*lengths)
    parts = offset.shape[1] // (2 * taps)
    expected = (images, 2 * parts * taps, rows, columns)
    if offset.shape != expected or rows < 1 or columns < 1 or channels % parts:
        raise _shape_error(
            x,
            filters,
            offset,
            f"offsets must be (N, G · {2 * taps}, {rows}, {columns}), and G must divide the {channels} channels",
        )
    # Each group of channels is treated as an image with its own offsets.
    shifts = reshape(offset, (images * parts, taps, 2, rows, columns))
    positions = []
    for axis, (size, count, gap, step, pads) in enumerate(
        zip(window.size, (rows, columns), window.dilation, window.strides, window.padding, strict=True)
    ):
        # positions (h, w, H′, W′) of the unshifted taps along this axis
        shape = [1, 1, 1, 1]
        shape[axis], shape[axis + 2] = size, count
        fixed = np.add.outer(np.arange(size) * gap - pads[0], np.arange(count) * step).reshape(shape)
        fixed = np.broadcast_to(fixed, (height, width, rows, columns)).reshape(taps, rows, columns)
        position = shifts[:, :, axis] + tensor(fixed.astype(offset.dtype), device=x.device)
        # limit the positions, so that taps with infinite offsets read zero
        positions.append(minimum(maximum(position, -2), lengths[axis] + 1))
    pixels = sampled(reshape(x, (images * parts, channels // parts, *lengths)), positions)
    if mask is not None:
        (mask,) = as_operands((mask,))
        if mask.shape != (images, parts * taps, rows, columns):
            raise _shape_error(
                x,
                filters,
                mask,
                f"the mask must be (N, {parts * taps}, {rows}, {columns}), one factor per tap",
            )
        pixels = pixels * reshape(mask, (images * parts, 1, taps, rows, columns))
    columns_matrix = reshape(pixels, (images, groups, channels // groups * taps, rows * columns))
    y = matmul(reshape(filters, (groups, filters.shape[0] // groups, channels // groups * taps)), columns_matrix)
    y = reshape(y, (images, filters.shape[0], rows, columns))
    return plus_bias(y, bias)


def _check(x: Expr, filters: Expr, offset: Expr, groups: int) -> None:
    rule = ""
    if x.ndim != 4 or filters.ndim != 4 or offset.ndim != 4:
        rule = "images, filters and offsets must have four axes"
    elif groups < 1 or filters.shape[1] * groups != x.shape[1] or filters.shape[0] % groups:
        rule = f"filters must be (O, C / {groups}, h, w), and C and O must be multiples of groups"
    elif not filters.shape[2] * filters.shape[3] or offset.shape[1] < 2 * filters.shape[2] * filters.shape[3]:
        rule = "filters must have at least one tap, and each tap must have two offsets"
    elif 0 in x.shape[2:]:
        rule = "images must have at least one pixel"
    if rule:
        raise _shape_error(x, filters, offset, rule)


def _shape_error(x: Expr, filters: Expr, other: Expr, rule: str) -> OperandError:
    return OperandError(
        f"deform_conv2d of {x.type} with filters {filters.type} and {other.type}",
        rule=rule,
        fix="x (1, 3, 8, 8), filters (4, 3, 3, 3), offset (1, 18, 6, 6)",
    )
