"""Non-maximum suppression, which removes boxes that overlap a box of the same class with a higher score.

The standard defines it since opset 10, and last changed it in opset 11. The number of selected boxes depends on input
values. It is computed first, and a separate plan is kept for each number.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.operation_examples import Example, real
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import is_known, value_of
from explorer.net.operators.signature import Known

_BLOCK = 128
"""number of boxes whose mutual overlaps are computed together"""


class NonMaxSuppression(Operation):
    """(image, class, box) indices of the selected boxes: (N, B, 4), (N, classes, B) → (count, 3), int64.

    For each image and class, at most ``most`` boxes are selected, in descending order of score. Their scores must
    exceed ``least`` if it is given. A box is skipped if its overlap with a selected box exceeds the fraction
    ``overlap`` of their union. A box is given by the y, x of two opposite corners, or, if ``is_centred`` is set, by the
    x, y of its centre, its width and its height. Running raises ValueError if the number of selected boxes is not
    ``count``.
    """

    count: int
    most: int
    overlap: float = 0.0
    least: float | None = None
    is_centred: bool = False
    portable = False
    nondifferentiable = "indices of boxes are integers"
    unbatchable = "each batch element may have a different number of selected boxes"
    examples = (Example(real(1, 4, 4, low=0.1, high=0.9), real(1, 2, 4), count=2, most=1),)

    def infer(self, boxes: TensorType, scores: TensorType) -> TensorType:
        """Return (count, 3), int64."""
        check(boxes, scores)
        return TensorType((self.count, 3), np.int64)

    def kernel(self, out: Array, boxes: Array, scores: Array) -> Array:
        """Select the boxes; raise ValueError if their number is not ``count``."""
        selected = selected_boxes(boxes, scores, self.most, self.overlap, self.least, self.is_centred)
        if len(selected) != self.count:
            raise ValueError(f"{len(selected)} boxes are selected, but the plan expects {self.count}")
        np.copyto(out, selected)
        return out

    def workspace(self, boxes: TensorType, scores: TensorType) -> int:
        """Return the bytes of an image's corners, areas and order, and of a block's overlaps."""
        count, itemsize = boxes.shape[1], boxes.dtype.itemsize
        return count * (9 * itemsize + 24) + min(_BLOCK, count) * min(self.most, count) * (8 * itemsize + 3)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return the cost of comparing each selected box with all boxes of its image."""
        return 12 * self.count * types[0].shape[1] + types[1].size


def check(boxes: Any, scores: Any) -> None:
    """Raise OperandError unless the shapes are (N, B, 4) for ``boxes`` and (N, classes, B) for ``scores``."""
    fits = len(boxes.shape) == 3 and boxes.shape[2] == 4 and len(scores.shape) == 3
    if (
        not fits
        or (scores.shape[0], scores.shape[2]) != boxes.shape[:2]
        or {boxes.dtype.kind, scores.dtype.kind} != {"f"}
    ):
        raise OperandError(
            f"boxes {boxes.dtype}{boxes.shape} with scores {scores.dtype}{scores.shape}",
            rule="NonMaxSuppression: boxes must be (N, B, 4) and scores (N, classes, B), of real numbers",
        )


def selected_boxes(
    boxes: Array, scores: Array, most: int, overlap: float, least: float | None, is_centred: bool
) -> Array:
    """Return the (image, class, box) indices of the selected boxes, per class in descending order of score."""
    rows: list[tuple[int, int, int]] = []
    for image, corners in enumerate(_corners(boxes, is_centred)):
        with np.errstate(invalid="ignore", over="ignore"):
            areas = (corners[2] - corners[0]) * (corners[3] - corners[1])
        for category, values in enumerate(scores[image]):
            candidates = np.arange(values.size) if least is None else np.flatnonzero(values > least)
            # boxes with equal scores keep their order
            order = candidates[np.argsort(-values[candidates], kind="stable")]
            rows += [(image, category, box) for box in _selected(corners, areas, order, most, overlap)]
    return np.array(rows, np.int64).reshape(-1, 3)


def _selected(corners: Array, areas: Array, order: Array, most: int, overlap: float) -> list[int]:
    selected: list[int] = []
    for begin in range(0, order.size, _BLOCK):
        block = order[begin : begin + _BLOCK]
        if selected:
            block = block[~_overlaps(corners, areas, np.array(selected), block, overlap).any(0)]
        within = _overlaps(corners, areas, block, block, overlap)
        is_suppressed = np.zeros(block.size, bool)
        for index, box in enumerate(block.tolist()):
            if len(selected) >= most:
                return selected
            if not is_suppressed[index]:
                selected.append(box)
                is_suppressed |= within[index]
    return selected


def _overlaps(corners: Array, areas: Array, first: Array, second: Array, overlap: float) -> Array:
    """Return whether the overlap of each pair of boxes exceeds the fraction ``overlap`` of their union."""
    left, right = corners[:, first, None], corners[:, None, second]
    # The sides of an infinite box may be NaN. Neither such a box nor an empty box overlaps any other box.
    with np.errstate(invalid="ignore", over="ignore"):
        sides = np.minimum(left[2:], right[2:]) - np.maximum(left[:2], right[:2])
        common = sides[0].clip(0) * sides[1].clip(0)
        union = areas[first, None] + areas[second] - common
        fraction = np.divide(common, union, out=np.zeros_like(union), where=(common > 0) & (union > 0))
    overlapping: Array = (common > 0) & (fraction > overlap)
    return overlapping


def _corners(boxes: Array, is_centred: bool) -> Array:
    """Return the smallest y, x and the largest y, x of each box: (N, 4, B)."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if is_centred:
        half = second / 2
        first, second = (first - half)[..., ::-1], (first + half)[..., ::-1]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1).transpose(0, 2, 1)


@operator("NonMaxSuppression")
def non_max_suppression(
    op: OperatorContext,
    boxes: Expr,
    scores: Expr,
    max_output_boxes_per_class: Known[float] = 0,
    iou_threshold: Known[float] = 0.0,
    score_threshold: Known[float] | None = None,
    *,
    center_point_box: Literal[0, 1] = 0,
) -> Expr:
    """Return the indices of boxes that do not overlap a box of the same class with a higher score."""
    check(boxes, scores)
    if not 0 <= iou_threshold <= 1:
        raise OperandError(
            f"iou_threshold={iou_threshold}", rule="NonMaxSuppression: iou_threshold must be between 0 and 1"
        )
    arguments = (int(max_output_boxes_per_class), float(iou_threshold), score_threshold, center_point_box == 1)

    def count_of(arrays: Any) -> int:
        return len(selected_boxes(arrays[0], arrays[1], *arguments))

    operands = [boxes, scores]
    if all(map(is_known, operands)):
        count = count_of([value_of(operand) for operand in operands])
    else:
        answer = op.ask("the number of boxes", operands, count_of, 12 * boxes.size)
        assert isinstance(answer, int)
        count = answer
    return NonMaxSuppression(count, *arguments)(boxes, scores)
