"""Images of another size: resampled, or with channels dealt out as pixels.

Where an element of the result lies between those of the image is what frameworks disagree about. torch's answers are
given to `resize` as its method, its coordinates and steps in single precision: a step that is off in its last digit
picks another pixel where a place is close to a half.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.pnnx.operators.base.arguments import integer
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.manipulation.rearrange import channel_shuffle, pixel_shuffle, pixel_unshuffle
from explorer.ops.nn.resize import resize

_METHODS = {"nearest": "floor", "nearest-exact": "round_prefer_ceil"}
"""mode → the rounding of a place to the nearest element"""
_MODES = ("nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic")
_FIXED = {
    "F.upsample_nearest": ("nearest", False),
    "F.upsample_bilinear": ("bilinear", True),
    "nn.UpsamplingNearest2d": ("nearest", False),
    "nn.UpsamplingBilinear2d": ("bilinear", True),
}
"""types that say the mode and whether corners are aligned"""


@file_operator("nn.Upsample", "F.upsample", "F.interpolate", *_FIXED)
def upsample(op: OperatorContext) -> Expr:
    """Images of a size, or by a scale: nearest, linear along each axis, or cubic."""
    op.only("antialias", False)
    x = op.x
    if x.ndim < 3:
        raise OperandError(
            f"an operand {x.type}",
            rule=f"{op.definition.type}: the operand must be (N, C, …) with at least one more axis",
        )
    mode, corners = _FIXED.get(op.definition.type) or (
        op.argument("mode", "nearest"),
        op.argument("align_corners", None),
    )
    if mode not in _MODES:
        raise OperandError(f"mode={mode!r}", rule=f"{op.definition.type}: the mode must be one of {', '.join(_MODES)}")
    recomputed = bool(op.argument("recompute_scale_factor", None))
    lengths, steps = _target(op, x, recomputed)
    if mode in _METHODS:
        # torch's nearest takes ⌊i · step⌋, off by half a pixel; nearest-exact is centred
        coordinates = "asymmetric" if mode == "nearest" else "half_pixel"
    else:
        coordinates = "align_corners" if corners else "half_pixel"
    method = _METHODS.get(mode) or ("cubic" if mode == "bicubic" else "linear")
    return resize(x, lengths, method=method, coordinates=coordinates, steps=steps)


def _target(op: OperatorContext, x: Expr, recomputed: bool) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The lengths of the last axes, and the distances of new elements in old ones, of torch's single precision."""
    old = x.shape[2:]
    size, scale = op.argument("size", None), op.argument("scale_factor", None)
    if size is not None:
        lengths = _each(op, "size", op.integers("size"), len(old))
        return lengths, _ratios(old, lengths)
    factors: tuple[Any, ...] = scale if isinstance(scale, tuple) else (scale,)
    if not all(isinstance(factor, (int, float)) and 0 < factor < 2**31 for factor in factors):
        raise OperandError(
            f"size={size!r}, scale_factor={scale!r}",
            rule=f"{op.definition.type} must have a size, or a positive scale_factor",
        )
    wide = _each(op, "scale_factor", factors, len(old))
    # ⌊ ⌋ in double precision, as torch computes it
    lengths = tuple([int(length * factor) for length, factor in zip(old, wide, strict=True)])
    if recomputed:
        return lengths, _ratios(old, lengths)
    return lengths, tuple([float(np.float32(1 / factor)) for factor in wide])


def _ratios(old: tuple[int, ...], new: tuple[int, ...]) -> tuple[float, ...]:
    return tuple([float(np.float32(size / max(length, 1))) for size, length in zip(old, new, strict=True)])


def _each(op: OperatorContext, name: str, values: tuple[Any, ...], axes: int) -> tuple[Any, ...]:
    numbers = values * axes if len(values) == 1 else values
    if len(numbers) != axes:
        raise OperandError(
            f"{name}={values!r} for {op.x.type}", rule=f"there must be one number, or one for each of {axes} axes"
        )
    return numbers


@file_operator("nn.PixelShuffle", "F.pixel_shuffle")
def pixel_shuffle_(op: OperatorContext) -> Expr:
    """Channels become the pixels of squares."""
    return pixel_shuffle(op.x, op.integer("upscale_factor"))


@file_operator("nn.PixelUnshuffle", "F.pixel_unshuffle")
def pixel_unshuffle_(op: OperatorContext) -> Expr:
    """The pixels of squares become channels."""
    return pixel_unshuffle(op.x, op.integer("downscale_factor"))


@file_operator("nn.ChannelShuffle", "F.channel_shuffle", "aten::channel_shuffle")
def channel_shuffle_(op: OperatorContext) -> Expr:
    """Channels dealt out among groups."""
    return channel_shuffle(op.x, integer(op, 1, "groups"))
