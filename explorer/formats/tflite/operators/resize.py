"""Images (N, H, W, C) of another height and width."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import Array
from explorer.formats.common.operator_checks import with_rank
from explorer.formats.tflite.operators.integer_arithmetic import is_quantized, of_bytes
from explorer.formats.tflite.operators.table import check_real, operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import integers, required
from explorer.ops.base import cast
from explorer.ops.elementwise.rounding_and_bits import floor_divide
from explorer.ops.elementwise.unary import absolute, sign
from explorer.ops.manipulation.gather import take
from explorer.ops.nn.resize import resize

_ONE = 1 << 10
"""parts of a pixel's distance to the next one"""


def _image(op: OperatorContext) -> tuple[Expr, tuple[int, int], bool, bool]:
    """Return the image, its new height and width, and how positions are counted."""
    x, size = with_rank("input", required(op, "input"), "N", "H", "W", "C"), integers(op, "size")
    align, half = op.flag("align_corners", False), op.flag("half_pixel_centers", False)
    if len(size) != 2 or min(size) < 1 or min(x.shape[1:3]) < 1 or (align and half):
        raise OperandError(
            f"input is {x.type}, size={size}, align_corners={align}, half_pixel_centers={half}",
            rule=f"{op.definition.type}: size must be a height and a width, 1 or more, and one of both options at most",
        )
    return x, (size[0], size[1]), align, half


@operator("RESIZE_BILINEAR", quantized=True)
def resize_bilinear(op: OperatorContext) -> Expr:
    """Pixels between the two nearest, row by row and column by column."""
    x, size, align, half = _image(op)
    if is_quantized(op, "input"):
        check_real(op, moves=True)
        of_bytes(op, wide=True, input=x)
        return _whole_pixels(x, size, align, half)
    check_real(op)
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


def _whole_pixels(x: Expr, size: tuple[int, int], align: bool, half: bool) -> Expr:
    """Return whole pixels between the two nearest: of signed ones in 1024 parts, of uint8 in single precision."""
    is_signed = x.dtype.kind == "i"
    dtype, one = np.dtype(np.int64 if is_signed else np.float32), _ONE if is_signed else 1
    y = cast(x, dtype)
    sides = []
    for axis, new in zip((1, 2), size, strict=True):
        claim_constant("RESIZE_BILINEAR", new, 2)
        before, after, share = (_parts if is_signed else _shares)(x.shape[axis], new, align, half)
        share = share.reshape(new, *[1] * (3 - axis)).astype(dtype)
        sides.append(((before, tensor((one - share).astype(dtype))), (after, tensor(share))))
    # the four neighbours of a pixel, in the order in which the interpreter adds them
    parts = [
        take(take(y, tensor(rows), 1), tensor(columns), 2) * row_share * column_share
        for columns, column_share in sides[1]
        for rows, row_share in sides[0]
    ]
    total = parts[0] + parts[1] + parts[2] + parts[3]
    if not is_signed:
        return cast(total + np.float32(0.5), x.dtype)
    # to the nearest, halves away from zero
    whole = _ONE * _ONE
    return cast(sign(total) * floor_divide(absolute(total) + whole // 2, whole), x.dtype)


def _parts(old: int, new: int, align: bool, half: bool) -> tuple[Array, Array, Array]:
    """Return for each place along an axis its two neighbours, and the share of the second one, in 1024 parts."""
    step = (_ONE * (old - 1) + (new - 1) // 2) // (new - 1) if align and new > 1 else (_ONE * old + new // 2) // new
    place = np.maximum(np.arange(new, dtype=np.int64) * step + (step // 2 - _ONE // 2 if half else 0), 0)
    # a step that is rounded up may lead beyond the last pixel
    before = np.minimum(place // _ONE, old - 1)
    return before, np.minimum(before + 1, old - 1), place - _ONE * before


def _shares(old: int, new: int, align: bool, half: bool) -> tuple[Array, Array, Array]:
    """Return for each place along an axis its two neighbours, and the share of the second one, in single precision."""
    step = np.float32(old - 1) / np.float32(new - 1) if align and new > 1 else np.float32(old) / np.float32(new)
    place = np.arange(new).astype(np.float32)
    place = (place + np.float32(0.5)) * step - np.float32(0.5) if half else place * step
    before = np.clip(np.floor(place), 0, old - 1)
    return before.astype(np.int64), np.minimum(np.ceil(place), old - 1).astype(np.int64), place - before
