"""Images sampled at the points of a grid."""

from __future__ import annotations

from typing import Any

from explorer.core.ir.expr import Expr
from explorer.formats.common.known_inputs import required
from explorer.formats.onnx.operators.base.delegated import delegated_of
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.elementwise.arithmetic import maximum, minimum
from explorer.ops.manipulation.concat import stack
from explorer.ops.manipulation.padding import pad

_BORDER = 4
"""elements repeated at each end, so that all taps of a cubic at 2 elements from an image lie on repeated ones"""


@operator("GridSample")
def grid_sample(op: OperatorContext) -> Any:
    """Images at the points of a grid, whose coordinates reach from −1 to 1."""
    mode = op.argument("mode", "linear")
    if mode != "cubic" or op.argument("padding_mode", "zeros") != "border":
        return delegated_of(op, {}, {})
    # The evaluator moves the points to the border; torch and ONNX Runtime repeat the border's elements around it.
    x, grid = required(op, "X"), required(op, "grid")
    aligned = op.integer("align_corners", 0) != 0
    lengths = x.shape[:1:-1]
    points = [_moved(grid[..., place], length, aligned) for place, length in enumerate(lengths)]
    around = ((0, 0), (0, 0), *[(_BORDER, _BORDER)] * len(lengths))
    operands = {"X": pad(x, around, mode="edge"), "grid": stack(points, axis=-1)}
    return delegated_of(op, operands, {"padding_mode": "zeros"})


def _moved(point: Expr, length: int, aligned: bool) -> Expr:
    """Return coordinates along an axis as those of the axis with repeated ends."""
    place = (point + 1) * ((length - 1) / 2) if aligned else ((point + 1) * length - 1) / 2
    # beyond 2 elements from the image all that is read is one element
    inner = minimum(maximum(place, -2), length + 1) + _BORDER
    whole = length + 2 * _BORDER
    return inner * (2 / (whole - 1)) - 1 if aligned else (2 * inner + 1) * (1 / whole) - 1
