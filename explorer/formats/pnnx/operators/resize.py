"""Image resizing by interpolation, and rearrangement of channels into pixels.

Frameworks map result coordinates to image coordinates in different ways. The arguments ``method``, ``coordinates`` and
``steps`` of ``resize`` select torch's mapping. Steps are in single precision as in torch, since the last digit of a
step may decide which pixel is nearest.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape
from explorer.formats.pnnx.operators.base.arguments import each_axis
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.signature import Ints
from explorer.ops.manipulation.rearrange import channel_shuffle, pixel_shuffle, pixel_unshuffle
from explorer.ops.nn.resize import resize

_NEAREST = {"nearest": ("floor", "asymmetric"), "nearest-exact": ("round_prefer_ceil", "half_pixel")}
"""rounding and coordinates by mode; torch's nearest is ⌊i · step⌋, off by half a pixel; nearest-exact is centred"""
_Factors = tuple[float, ...]


@file_operator("nn.Upsample", "F.upsample", "F.interpolate")
def interpolate(
    input: Expr,
    *,
    size: Ints | None = None,
    scale_factor: _Factors | None = None,
    mode: Literal["nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic"] = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: Literal[False] = False,
) -> Expr:
    """Resize images to ``size``, or by ``scale_factor``, with nearest, linear or cubic interpolation."""
    if input.ndim < 3:
        raise OperandError(f"an operand {input.type}", rule="the operand must be (N, C, …) with at least one more axis")
    lengths, steps = _target(input.shape[2:], size, scale_factor, bool(recompute_scale_factor))
    method, coordinates = _NEAREST.get(mode) or (
        "cubic" if mode == "bicubic" else "linear",
        "align_corners" if align_corners else "half_pixel",
    )
    return resize(input, lengths, method=method, coordinates=coordinates, steps=steps)


@file_operator("F.upsample_nearest", "nn.UpsamplingNearest2d")
def upsample_nearest(input: Expr, *, size: Ints | None = None, scale_factor: _Factors | None = None) -> Expr:
    """Resize images to ``size``, or by ``scale_factor``, with nearest-neighbour interpolation."""
    return interpolate(input, size=size, scale_factor=scale_factor)


@file_operator("F.upsample_bilinear", "nn.UpsamplingBilinear2d")
def upsample_bilinear(input: Expr, *, size: Ints | None = None, scale_factor: _Factors | None = None) -> Expr:
    """Resize images to ``size``, or by ``scale_factor``, with bilinear interpolation and aligned corners."""
    return interpolate(input, size=size, scale_factor=scale_factor, mode="bilinear", align_corners=True)


def _target(old: Shape, size: Ints | None, factors: _Factors | None, recomputed: bool) -> tuple[Shape, _Factors]:
    """Return the new length of each axis, and the float32 distance in old pixels between two new pixels."""
    if size is not None:
        lengths = each_axis("size", size, len(old))
        return lengths, _ratios(old, lengths)
    if factors is None or not all(0 < factor < 2**31 for factor in factors):
        raise OperandError(
            f"size={size!r}, scale_factor={factors!r}", rule="there must be a size, or a positive scale_factor"
        )
    wide = each_axis("scale_factor", factors, len(old))
    # rounded down in double precision, as in torch
    lengths = tuple([int(length * factor) for length, factor in zip(old, wide, strict=True)])
    return lengths, _ratios(old, lengths) if recomputed else tuple([float(np.float32(1 / factor)) for factor in wide])


def _ratios(old: Shape, new: Shape) -> _Factors:
    return tuple([float(np.float32(size / max(length, 1))) for size, length in zip(old, new, strict=True)])


@file_operator("nn.PixelShuffle", "F.pixel_shuffle")
def pixel_shuffle_(input: Expr, *, upscale_factor: int) -> Expr:
    """Rearrange channels into squares of ``upscale_factor`` × ``upscale_factor`` pixels."""
    return pixel_shuffle(input, upscale_factor)


@file_operator("nn.PixelUnshuffle", "F.pixel_unshuffle")
def pixel_unshuffle_(input: Expr, *, downscale_factor: int) -> Expr:
    """Rearrange squares of ``downscale_factor`` × ``downscale_factor`` pixels into channels."""
    return pixel_unshuffle(input, downscale_factor)


@file_operator("nn.ChannelShuffle", "F.channel_shuffle", "aten::channel_shuffle")
def channel_shuffle_(input: Expr, groups: int) -> Expr:
    """Divide the channels into ``groups`` groups and interleave the groups."""
    return channel_shuffle(input, groups)
