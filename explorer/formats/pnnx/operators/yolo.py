"""The detection head of YOLOv5, which pnnx writes as one operator with ``moduleop=models.yolo.Detect``."""

from __future__ import annotations

from typing import NamedTuple

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor
from explorer.formats.common.operator_checks import with_rank
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.elementwise.unary import sigmoid, square
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.reshape import reshape, transpose
from explorer.ops.nn.conv import conv2d


class _Level(NamedTuple):
    """Grid and anchors of one feature map, both of shape (1, anchors, rows, columns, 2)."""

    grid: Tensor
    anchors: Tensor


@file_operator("models.yolo.Detect")
def detect(op: OperatorContext, *maps: Expr) -> Expr:
    """Return the boxes of feature maps, (N, pixels · anchors, 5 + classes): centre, size, objectness and class scores.

    pnnx numbers the constants, so they are identified by shape and values. Each map has one stride, positive anchors,
    and a grid that begins at 0 (in newer files at −0.5).
    """
    numbered = [op.weight(name) for name in op.definition.weights if name.startswith("pnnx_")]
    strides = [constant for constant in numbered if constant.shape == (len(maps),)]
    if len(strides) != 1:
        raise OperandError(
            f"{len(strides)} constants of shape ({len(maps)},)", rule="one constant, the strides, must have this shape"
        )
    rows_of_boxes = []
    for index, x in enumerate(maps):
        level = _level(x, numbered)
        name = f"m.{index}.weight"
        filters = with_rank(name, op.weight(name), "outputs", "channels", "rows", "columns")
        n, count, rows, columns = x.shape[0], level.grid.shape[1], *x.shape[2:]
        features = filters.shape[0] // count
        y = conv2d(x, filters, op.optional_weight(f"m.{index}.bias"))
        y = sigmoid(transpose(reshape(y, (n, count, features, rows, columns)), (0, 1, 3, 4, 2)))
        # YOLOv5's formula is (2 · σ − 0.5 + grid) · stride; in newer files the grid includes the −0.5
        shift = 0.0 if float(level.grid.array[0, 0, 0, 0, 0]) < 0 else -0.5
        centre = (y[..., :2] * 2 + (level.grid + shift if shift else level.grid)) * strides[0][index]
        size = square(y[..., 2:4] * 2) * level.anchors
        boxes = concatenate((centre, size, y[..., 4:]), 4)
        rows_of_boxes.append(reshape(boxes, (n, count * rows * columns, features)))
    return concatenate(rows_of_boxes, 1)


def _level(x: Expr, numbered: list[Tensor]) -> _Level:
    """Return the constants of a feature map; raise OperandError if they are not unique."""
    if x.ndim != 4:
        raise OperandError(f"an operand {x.type}", rule="the operands must be feature maps (N, C, H, W)")
    own = [constant for constant in numbered if constant.ndim == 5 and constant.shape[2:] == (*x.shape[2:], 2)]
    grids = [constant for constant in own if (constant.array[0, 0, 0, 0] <= 0).all()]
    anchors = [constant for constant in own if (constant.array > 0).all()]
    if len(grids) != 1 or len(anchors) != 1 or grids[0].shape != anchors[0].shape:
        sizes = ", ".join(repr(constant.type) for constant in numbered) or "none"
        raise OperandError(
            f"a feature map {x.type} with the constants {sizes}",
            rule="each map must have one grid and one tensor of anchors of its size",
            fix="run the net on images of the size with which it was exported",
        )
    return _Level(grids[0], anchors[0])
