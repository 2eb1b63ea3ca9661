"""Conversion of windows of images to columns and back."""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_steps
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.ops.manipulation.concat import stack
from explorer.ops.manipulation.reshape import expand_dims, squeeze
from explorer.ops.nn import fold_unfold

Pair = tuple[int, int]
"""one number for both rows and columns, or one number for each"""


@file_operator("nn.Unfold", "F.unfold")
def unfold(
    input: Expr, *, kernel_size: Pair, stride: Pair = (1, 1), dilation: Pair = (1, 1), padding: Pair = (0, 0)
) -> Expr:
    """Return the windows of images (N, C, H, W) as columns (N, C · h · w, windows)."""
    if input.ndim not in (3, 4):
        raise OperandError(f"an operand {input.type}", rule="the operand must be (N, C, H, W)")
    x = expand_dims(input, 0) if input.ndim == 3 else input
    columns = fold_unfold.unfold(x, window=kernel_size, strides=stride, dilation=dilation, padding=padding)
    return squeeze(columns, 0) if input.ndim == 3 else columns


@file_operator("nn.Fold", "F.fold")
def fold(
    input: Expr,
    *,
    output_size: Pair,
    kernel_size: Pair,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Pair = (0, 0),
) -> Expr:
    """Add columns (N, C · h · w, windows) to images (N, C, H, W) at the positions of their windows."""
    x = expand_dims(input, 0) if input.ndim == 2 else input
    images = fold_unfold.fold(x, output_size, window=kernel_size, strides=stride, dilation=dilation, padding=padding)
    return squeeze(images, 0) if input.ndim == 2 else images


@file_operator("aten::unfold", "Tensor.unfold")
def windows(input: Expr, dimension: int, size: int, step: int) -> Expr:
    """Return the windows along the axis ``dimension``; a new last axis contains the elements of each window."""
    axis = normalize_axis(dimension, input.ndim, "unfold")
    if not 0 < size <= input.shape[axis] or step < 1:
        raise OperandError(
            f"windows of {size} with step {step} along {input.shape[axis]} elements",
            rule="a window must be within the axis, and the step must be 1 or more",
        )
    count = (input.shape[axis] - size) // step + 1
    claim_steps("unfold", size)
    front = (slice(None),) * axis
    starts = [slice(start, start + (count - 1) * step + 1, step) for start in range(size)]
    return stack([input[(*front, each)] for each in starts], input.ndim)
