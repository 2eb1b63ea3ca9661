"""Images sampled at the points of a grid."""

from __future__ import annotations

from typing import Any

from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import required
from explorer.ops.nn.sampling import METHODS, PADDINGS
from explorer.ops.nn.sampling import grid_sample as sample


@operator("GridSample")
def grid_sample(op: OperatorContext) -> Any:
    """Images at the points of a grid, whose coordinates reach from −1 to 1."""
    mode, padding = op.word("mode", "linear", METHODS), op.word("padding_mode", "zeros", PADDINGS)
    aligned = op.integer("align_corners", 0) != 0
    return sample(required(op, "X"), required(op, "grid"), mode, padding, aligned)
