"""Images sampled at the points of a grid, and grids of affine maps."""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.pnnx.operators.base.arguments import flag, integers, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.nn.sampling import affine_grid as affine
from explorer.ops.nn.sampling import grid_sample as sample

_MODES = {0: "bilinear", 1: "nearest", 2: "bicubic"}
_PADDINGS = {0: "zeros", 1: "border", 2: "reflection"}
"""numbers of modes and paddings at level 0"""
_METHODS = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
"""torch's words for modes → the engine's"""


@file_operator("F.grid_sample", "aten::grid_sampler")
def grid_sample(op: OperatorContext) -> Expr:
    """Images or volumes at the points of a grid, whose coordinates reach from −1 to 1."""
    mode, padding = value(op, 2, "mode", "bilinear"), value(op, 3, "padding_mode", "zeros")
    mode, padding = _MODES.get(mode, mode), _PADDINGS.get(padding, padding)
    if mode not in _METHODS or padding not in _PADDINGS.values():
        raise OperandError(
            f"mode={mode!r}, padding_mode={padding!r}",
            rule=f"{op.definition.type}: mode must be one of {', '.join(_METHODS)}, padding_mode one of "
            f"{', '.join(_PADDINGS.values())}",
        )
    return sample(op.x, op.tensor(1, "grid"), _METHODS[mode], padding, _aligned(op, 4))


@file_operator("F.affine_grid", "aten::affine_grid_generator")
def affine_grid(op: OperatorContext) -> Expr:
    """The points of an image's or a volume's elements under affine maps (N, axes, axes + 1)."""
    theta, size = op.tensor(0, "theta"), integers(op, 1, "size")
    axes = len(size) - 2
    if axes not in (2, 3) or theta.shape != (size[0], axes, axes + 1) or min(size) < 1:
        raise OperandError(
            f"maps {theta.type} for the size {size}",
            rule=f"{op.definition.type}: there must be an image or a volume (N, C, …), and a map (N, axes, axes + 1)",
        )
    return affine(theta, size[2:], _aligned(op, 2))


def _aligned(op: OperatorContext, place: int) -> bool:
    """Return whether the corners are aligned; torch's None means that they are not."""
    return value(op, place, "align_corners", None) is not None and flag(op, place, "align_corners")
