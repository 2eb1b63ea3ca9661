"""GridSample."""

from __future__ import annotations

from typing import Literal

from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.base.table import operator
from explorer.ops.nn.sampling import grid_sample as sample


@operator("GridSample")
def grid_sample(
    X: Expr,
    grid: Expr,
    *,
    align_corners: int = 0,
    mode: Literal["linear", "nearest", "cubic"] = "linear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
) -> Expr:
    """Sample images at the points of a grid with coordinates in [−1, 1]."""
    return sample(X, grid, mode, padding_mode, align_corners != 0)
