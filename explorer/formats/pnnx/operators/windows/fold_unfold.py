"""Windows of images as columns, and columns added up to images again."""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.pnnx.operators.base.arguments import sizes
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.manipulation.reshape import expand_dims, squeeze
from explorer.ops.nn import fold_unfold


def _windows(op: OperatorContext) -> dict[str, Any]:
    return {
        "window": sizes(op, "kernel_size", 2),
        "strides": sizes(op, "stride", 2, 1),
        "dilation": sizes(op, "dilation", 2, 1),
        "padding": sizes(op, "padding", 2, 0),
    }


@file_operator("nn.Unfold", "F.unfold")
def unfold(op: OperatorContext) -> Expr:
    """The windows of images (N, C, H, W) as columns (N, C · h · w, windows)."""
    x = op.x
    if x.ndim not in (3, 4):
        raise OperandError(f"an operand {x.type}", rule=f"{op.definition.type}: the operand must be (N, C, H, W)")
    if x.ndim == 3:
        return squeeze(fold_unfold.unfold(expand_dims(x, 0), **_windows(op)), 0)
    return fold_unfold.unfold(x, **_windows(op))


@file_operator("nn.Fold", "F.fold")
def fold(op: OperatorContext) -> Expr:
    """Columns (N, C · h · w, windows) added up to images (N, C, H, W) at the places of their windows."""
    x, size = op.x, sizes(op, "output_size", 2)
    if x.ndim == 2:
        return squeeze(fold_unfold.fold(expand_dims(x, 0), size, **_windows(op)), 0)
    return fold_unfold.fold(x, size, **_windows(op))
