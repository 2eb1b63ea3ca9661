"""Images sampled at the points of a grid, and grids of affine maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.formats.pnnx.operators.base.arguments import flag, integers, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.definition.operator_definition import OperatorDefinition
from explorer.net.operators.context import OperatorContext
from explorer.ops.linalg.matmul import matmul
from explorer.ops.manipulation.reshape import expand_dims, reshape, transpose

_MODES = {0: "bilinear", 1: "nearest", 2: "bicubic"}
_PADDINGS = {0: "zeros", 1: "border", 2: "reflection"}
"""numbers of modes and paddings at level 0"""
_WORDS = {"bilinear": "linear", "bicubic": "cubic"}
"""torch's words for modes → ONNX's"""


@file_operator("F.grid_sample", "aten::grid_sampler")
def grid_sample(op: OperatorContext) -> Any:
    """Images at the points of a grid, whose coordinates reach from −1 to 1."""
    # the onnx package is slow to import
    from explorer.formats.onnx.operators.sampling import grid_sample as standard

    x, grid = op.x, op.tensor(1, "grid")
    mode, padding = value(op, 2, "mode", "bilinear"), value(op, 3, "padding_mode", "zeros")
    mode, padding = _MODES.get(mode, mode), _PADDINGS.get(padding, padding)
    if mode not in _MODES.values() or padding not in _PADDINGS.values():
        raise OperandError(
            f"mode={mode!r}, padding_mode={padding!r}",
            rule=f"{op.definition.type}: mode must be one of {', '.join(_MODES.values())}, padding_mode one of "
            f"{', '.join(_PADDINGS.values())}",
        )
    aligned = value(op, 4, "align_corners", None)
    arguments = {
        "mode": _WORDS.get(mode, mode),
        "padding_mode": padding,
        "align_corners": 0 if aligned is None else int(flag(op, 4, "align_corners")),
    }
    own = op.definition
    definition = OperatorDefinition(
        "GridSample", own.name, ("X", "grid"), own.outputs[:1], arguments, {"X": "X", "grid": "grid"}, line=own.line
    )
    return standard(OperatorContext(definition, (x, grid), op.weight))


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
    claim_constant("points of a grid", int(np.prod(size[2:])) * (axes + 1))
    aligned = value(op, 2, "align_corners", None)
    corners = False if aligned is None else flag(op, 2, "align_corners")
    lines = [_line(length, corners) for length in size[2:]]
    # the last axis comes first in a point
    points = [*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(size[2:])]
    base = np.stack(points, -1).reshape(-1, axes + 1).astype(theta.dtype)
    grid = matmul(expand_dims(tensor(base), 0), transpose(theta, (0, 2, 1)))
    return reshape(grid, (size[0], *size[2:], axes))


def _line(length: int, corners: bool) -> Any:
    if corners:
        return np.linspace(-1, 1, length) if length > 1 else np.zeros(1)
    return (2 * np.arange(length) + 1) / length - 1
