"""Resizing of images (N, H, W, C)."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import Array
from explorer.formats.common.operator_checks import with_rank
from explorer.formats.tflite.operators.activation import check_float
from explorer.formats.tflite.operators.integer_arithmetic import check_dtypes, has_scale
from explorer.formats.tflite.operators.table import check_real, operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.signature import Ints, Known
from explorer.ops.base import cast
from explorer.ops.elementwise.rounding_and_bits import floor_divide
from explorer.ops.elementwise.unary import absolute, sign
from explorer.ops.manipulation.gather import take
from explorer.ops.nn.resize import resize

_ONE = 1 << 10
"""number of fixed-point steps between two adjacent pixels"""


def _check(x: Expr, size: tuple[int, ...], align_corners: bool, half_pixel_centers: bool) -> tuple[int, int]:
    """Return the new height and width; raise OperandError if they are invalid, or if both options are set."""
    with_rank("input", x, "N", "H", "W", "C")
    if len(size) != 2 or min(size) < 1 or min(x.shape[1:3]) < 1 or (align_corners and half_pixel_centers):
        raise OperandError(
            f"input is {x.type}, size={size}, align_corners={align_corners}, half_pixel_centers={half_pixel_centers}",
            rule="size must be a height and a width of at least 1, and at most one of the options may be set",
        )
    return size[0], size[1]


@operator("RESIZE_BILINEAR", quantized=True)
def resize_bilinear(
    op: OperatorContext,
    input: Expr,
    size: Known[Ints],
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Expr:
    """Return images resized to ``size`` with bilinear interpolation."""
    lengths = _check(input, size, align_corners, half_pixel_centers)
    if has_scale(op, "input"):
        check_real(op, moves=True)
        check_dtypes(op, wide=True, input=input)
        return _quantized_pixels(input, lengths, align_corners, half_pixel_centers)
    check_real(op)
    coordinates = "align_corners" if align_corners else "half_pixel" if half_pixel_centers else "asymmetric"
    return resize(check_float("input", input), lengths, (1, 2), method="linear", coordinates=coordinates)


@operator("RESIZE_NEAREST_NEIGHBOR", moves=True)
def resize_nearest(
    input: Expr, size: Known[Ints], *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Expr:
    """Return images resized to ``size`` with nearest-neighbour interpolation.

    Positions are rounded in single precision, as in TensorFlow Lite.
    """
    x = input
    for axis, new in zip((1, 2), _check(x, size, align_corners, half_pixel_centers), strict=True):
        old = x.shape[axis]
        claim_constant("RESIZE_NEAREST_NEIGHBOR", new)
        step = _step(old, new, align_corners)
        coordinates = (np.arange(new).astype(np.float32) + np.float32(0.5 * half_pixel_centers)) * step
        positions = np.floor(coordinates + np.float32(0.5)) if align_corners else np.floor(coordinates)
        x = take(x, tensor(np.clip(positions, 0, old - 1).astype(np.int64)), axis)
    return x


def _step(old: int, new: int, align: bool) -> np.float32:
    """Return the distance between two adjacent new pixels, in units of old pixels."""
    return np.float32(old - 1) / np.float32(new - 1) if align and new > 1 else np.float32(old) / np.float32(new)


def _quantized_pixels(x: Expr, size: tuple[int, int], align: bool, half: bool) -> Expr:
    """Interpolate quantised pixels, in steps of 1/1024 if they are signed integers, else in single precision."""
    is_signed = x.dtype.kind == "i"
    dtype, one = np.dtype(np.int64 if is_signed else np.float32), _ONE if is_signed else 1
    y = cast(x, dtype)
    sides = []
    for axis, new in zip((1, 2), size, strict=True):
        claim_constant("RESIZE_BILINEAR", new, 2)
        weights_of = _integer_weights if is_signed else _float_weights
        before, after, weight = weights_of(x.shape[axis], new, align, half)
        weight = weight.reshape(new, *[1] * (3 - axis)).astype(dtype)
        sides.append(((before, tensor((one - weight).astype(dtype))), (after, tensor(weight))))
    # The four neighbours of a pixel are added in the interpreter's order.
    parts = [
        take(take(y, tensor(rows), 1), tensor(columns), 2) * row_weight * column_weight
        for columns, column_weight in sides[1]
        for rows, row_weight in sides[0]
    ]
    total = parts[0] + parts[1] + parts[2] + parts[3]
    if not is_signed:
        return cast(total + np.float32(0.5), x.dtype)
    # rounded to the nearest integer, with halves rounded away from zero
    area = _ONE * _ONE
    return cast(sign(total) * floor_divide(absolute(total) + area // 2, area), x.dtype)


def _integer_weights(old: int, new: int, align: bool, half: bool) -> tuple[Array, Array, Array]:
    """Return each new pixel's two neighbours along an axis, and the second neighbour's weight in steps of 1/1024."""
    step = (_ONE * (old - 1) + (new - 1) // 2) // (new - 1) if align and new > 1 else (_ONE * old + new // 2) // new
    position = np.maximum(np.arange(new, dtype=np.int64) * step + (step // 2 - _ONE // 2 if half else 0), 0)
    # if the step was rounded up, a position may be beyond the last pixel
    before = np.minimum(position // _ONE, old - 1)
    return before, np.minimum(before + 1, old - 1), position - _ONE * before


def _float_weights(old: int, new: int, align: bool, half: bool) -> tuple[Array, Array, Array]:
    """Return each new pixel's two neighbours along an axis, and the second neighbour's weight as float32."""
    step = _step(old, new, align)
    position = np.arange(new).astype(np.float32)
    position = (position + np.float32(0.5)) * step - np.float32(0.5) if half else position * step
    before = np.clip(np.floor(position), 0, old - 1)
    return before.astype(np.int64), np.minimum(np.ceil(position), old - 1).astype(np.int64), position - before
