"""Convolution of signals, images and volumes, transposed convolution, and deformable convolution.

The standard has Conv and ConvTranspose since opset 1, DeformConv since 19; opset 22 only added dtypes. If ConvTranspose
has ``output_shape`` or ``auto_pad``, ``_cut`` computes how many pixels to cut off to get the requested size.
"""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.windows.window_attributes import (
    AutoPad,
    Sides,
    WindowAttributes,
    check_rank,
    for_each_axis,
)
from explorer.net.operators.signature import Ints
from explorer.ops.nn.conv import conv
from explorer.ops.nn.conv_transpose import conv_transpose
from explorer.ops.nn.deform_conv import deform_conv2d


@operator("Conv")
def convolution(X: Expr, W: Expr, B: Expr | None = None, *, window: WindowAttributes, group: int = 1) -> Expr:
    """Return the cross-correlation with filters W plus a bias B; a signal becomes an image with one row."""
    _check(X, W, window)
    strides, dilations = window.steps(X)
    return conv(X, W, B, X.ndim - 2, strides, window.padding(X, W.shape[2:]), dilations, group)


def _check(x: Expr, filters: Expr, window: WindowAttributes) -> None:
    check_rank(x)
    if filters.ndim != x.ndim:
        raise OperandError(
            f"an operand {x.type} and filters {filters.type}", rule="the filters must have as many axes as X"
        )
    window.check_filters(filters)


@operator("ConvTranspose")
def transposed_convolution(
    X: Expr,
    W: Expr,
    B: Expr | None = None,
    *,
    group: int = 1,
    output_padding: Ints | None = None,
    output_shape: Ints | None = None,
    window: WindowAttributes,
) -> Expr:
    """Return the adjoint of a convolution with filters W, plus a bias B."""
    _check(X, W, window)
    count, size, auto_pad = X.ndim - 2, W.shape[2:], window.auto_pad
    steps, gaps = window.steps(X)
    extra = for_each_axis(X, "output_padding", output_padding, 0)
    if auto_pad in ("NOTSET", "VALID") and output_shape is None:
        cut = window.padding(X, size)
    else:
        reach = tuple(
            step * (length - 1) + gap * (width - 1) + 1 + more
            for step, length, gap, width, more in zip(steps, X.shape[2:], gaps, size, extra, strict=True)
        )
        target = tuple(length * step for length, step in zip(X.shape[2:], steps, strict=True))
        cut = _cut(reach, target if output_shape is None else _spatial(X, output_shape, reach), auto_pad)
    return conv_transpose(X, W, B, count, steps, cut, extra, gaps, group)


def _spatial(x: Expr, output_shape: Ints, reach: Ints) -> Ints:
    """Return the spatial lengths in ``output_shape``; raise OperandError if they exceed ``reach``."""
    count = x.ndim - 2
    if len(output_shape) not in (count, count + 2):  # older files also list batch and channels
        raise OperandError(
            f"an operand {x.type} and output_shape {output_shape}",
            rule="output_shape must have one number for each axis after the channels",
        )
    target = output_shape[-count:]
    if any(goal > length for length, goal in zip(reach, target, strict=True)):
        raise OperandError(
            f"output_shape={target}",
            rule=f"ConvTranspose: output_shape must not exceed {reach}, the size that the filters reach",
            fix="omit output_shape, or add output_padding",
        )
    return target


def _cut(reach: Ints, target: Ints, auto_pad: AutoPad) -> Sides:
    """Return the number of pixels to cut off each side of an output of size ``reach`` to get the size ``target``."""
    cuts = []
    for length, goal in zip(reach, target, strict=True):
        # if strides exceed the filters, their reach may be smaller than the size for SAME; then nothing is cut off
        total = max(length - goal, 0)
        small, large = total // 2, total - total // 2
        # if the number is odd, the standard cuts one more at the end for SAME_UPPER, otherwise at the start
        cuts.append((small, large) if auto_pad == "SAME_UPPER" else (large, small))
    return tuple(cuts)


@operator("DeformConv")
def deformable_convolution(
    X: Expr,
    W: Expr,
    offset: Expr,
    B: Expr | None = None,
    mask: Expr | None = None,
    *,
    group: int = 1,
    offset_group: int = 1,
    window: WindowAttributes,
) -> Expr:
    """Return a convolution with filters W plus a bias B; offsets move its taps, and a mask scales them."""
    if X.ndim != 4 or W.ndim != 4 or offset.ndim != 4:
        raise OperandError(
            f"X {X.type}, W {W.type}, offset {offset.type}",
            rule="DeformConv: images, filters and offsets must have four axes; other ranks are not implemented",
        )
    window.check_filters(W)
    if offset.shape[1] != 2 * offset_group * W.shape[2] * W.shape[3]:
        raise OperandError(
            f"offset {offset.type} with offset_group={offset_group} and filters {W.type}",
            rule="DeformConv: offsets must have two channels for each tap of each offset group",
        )
    (steps, gaps), sides = window.steps(X), window.padding(X, W.shape[2:])
    return deform_conv2d(
        X,
        W,
        offset,
        mask,
        B,
        strides=(steps[0], steps[1]),
        padding=(sides[0], sides[1]),
        dilation=(gaps[0], gaps[1]),
        groups=group,
    )
