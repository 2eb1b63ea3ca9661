"""Sampling of images at the points of a grid, and grids of affine maps."""

from __future__ import annotations

from typing import Literal

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.signature import Ints
from explorer.ops.nn.sampling import affine_grid as affine
from explorer.ops.nn.sampling import grid_sample as sample

# explorer's names of torch's modes and paddings, which pnnx writes as numbers at level 0
_METHODS = {"bilinear": "linear", 0: "linear", "nearest": "nearest", 1: "nearest", "bicubic": "cubic", 2: "cubic"}
_PADDINGS = {0: "zeros", 1: "border", 2: "reflection"}


@file_operator("F.grid_sample", "aten::grid_sampler")
def grid_sample(
    input: Expr,
    grid: Expr,
    mode: Literal["bilinear", "nearest", "bicubic", 0, 1, 2] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection", 0, 1, 2] = "zeros",
    align_corners: bool | None = None,
) -> Expr:
    """Sample images or volumes at the points of a grid, whose coordinates are between −1 and 1."""
    padding = padding_mode if isinstance(padding_mode, str) else _PADDINGS[padding_mode]
    return sample(input, grid, _METHODS[mode], padding, bool(align_corners))


@file_operator("F.affine_grid", "aten::affine_grid_generator")
def affine_grid(theta: Expr, size: Ints, align_corners: bool | None = None) -> Expr:
    """Return the positions of all pixels of an image or volume, transformed by the affine maps ``theta``.

    ``theta`` has the shape (N, axes, axes + 1).
    """
    axes = len(size) - 2
    if axes not in (2, 3) or theta.shape != (size[0], axes, axes + 1) or min(size) < 1:
        raise OperandError(
            f"maps {theta.type} for the size {size}",
            rule="size must be (N, C, …) of images or volumes, and theta must have the shape (N, axes, axes + 1)",
        )
    return affine(theta, size[2:], bool(align_corners))
