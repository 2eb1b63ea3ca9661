"""Regions and boxes of detectors: errors at run time, and edge cases that ONNX Runtime's cases do not contain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import explorer as ex
from tests.formats.onnx.models import FLOAT, model, node, opened
from tests.support.refusals import refused

WHOLE = TensorProto.INT64


def aligned(tmp_path: Path, regions: Any, numbers: Any, x: Any, **attributes: Any) -> Any:
    """Return RoiAlign's result for regions of images."""
    attributes = {"output_height": 2, "output_width": 2, **attributes}
    types = {"x": (FLOAT, x.shape), "r": (FLOAT, regions.shape), "n": (WHOLE, numbers.shape)}
    net = opened(model([node("RoiAlign", ["x", "r", "n"], ["y"], **attributes)], types, ["y"], opset=16), tmp_path)
    return net.run({"x": x, "r": regions, "n": numbers})


@pytest.mark.parametrize(
    ("corner", "number", "problem"),
    [
        (np.inf, 0, "an infinite or NaN corner"),
        (np.nan, 0, "an infinite or NaN corner"),
        (4.0, 2, "a region of image 2 of 2"),
        (4.0, -1, "a region of image -1 of 2"),
        (1e9, 0, "for which a bin needs"),
    ],
)
def test_regions_outside_the_batch_raise_an_error(corner: float, number: int, problem: str, tmp_path: Path) -> None:
    regions = np.array([[0, 0, 3, corner]], np.float32)
    with pytest.raises(ex.RunError, match=problem):
        aligned(tmp_path, regions, np.array([number]), np.ones((2, 1, 4, 4), np.float32))


def test_a_region_without_samples_is_zero(tmp_path: Path) -> None:
    """Its second corner precedes the first. A sample more than a pixel outside the image is zero, too."""
    x = np.ones((1, 1, 4, 4), np.float32)
    regions = np.array([[3, 3, 1, 1], [20, 20, 24, 24], [0, 0, 4, 4]], np.float32)
    for mode in ("avg", "max"):
        result = aligned(tmp_path, regions, np.zeros(3, np.int64), x, mode=mode)
        np.testing.assert_array_equal(result[:2], 0)
        assert (result[2] > 0).all()


def test_a_pixel_that_is_not_read_changes_no_bin(tmp_path: Path) -> None:
    x = np.ones((1, 1, 8, 8), np.float32)
    x[0, 0, 6, :], x[0, 0, :, 7] = np.nan, np.inf
    result = aligned(tmp_path, np.array([[1, 1, 4, 4]], np.float32), np.zeros(1, np.int64), x)
    np.testing.assert_array_equal(result, 1)


def suppressed(tmp_path: Path, boxes: Any, scores: Any, *limits: Any, **attributes: Any) -> Any:
    """Return NonMaxSuppression's result."""
    names = ["b", "s", *[f"l{place}" for place in range(len(limits))]]
    kinds = [WHOLE, FLOAT, FLOAT]
    types = {"b": (FLOAT, boxes.shape), "s": (FLOAT, scores.shape)}
    types |= {name: (kind, (1,)) for name, kind in zip(names[2:], kinds, strict=False)}
    proto = model([node("NonMaxSuppression", names, ["y"], **attributes)], types, ["y"], opset=11)
    arrays = [np.array([limit], np.int64 if place == 0 else np.float32) for place, limit in enumerate(limits)]
    return opened(proto, tmp_path).run(dict(zip(names, [boxes, scores, *arrays], strict=True)))


def test_boxes_are_suppressed_across_blocks(tmp_path: Path) -> None:
    """Of four hundred copies of a box and one box elsewhere, the best copy and the other box stay."""
    boxes = np.tile(np.float32([[0, 0, 1, 1]]), (401, 1))
    boxes[400] = [2, 2, 3, 3]
    scores = np.linspace(0.1, 0.9, 401, dtype=np.float32)
    result = suppressed(tmp_path, boxes[None, [*range(1, 400), 400, 0]], scores[None, None], 10, 0.5)
    np.testing.assert_array_equal(result, [[0, 0, 400], [0, 0, 399]])


def test_no_box_is_selected_if_the_maximum_is_zero(tmp_path: Path) -> None:
    boxes, scores = np.float32([[[0, 0, 1, 1]]]), np.float32([[[0.5]]])
    assert suppressed(tmp_path, boxes, scores).shape == (0, 3)
    assert suppressed(tmp_path, boxes, scores, 5, 0.5, 0.5).shape == (0, 3)  # a score must exceed the threshold
    assert suppressed(tmp_path, boxes[:, :0], scores[..., :0], 5).shape == (0, 3)


def test_mismatching_boxes_and_scores_raise_an_error(tmp_path: Path) -> None:
    types = {"b": (FLOAT, [1, 6, 4]), "s": (FLOAT, [1, 2, 5])}
    (finding,) = opened(model([node("NonMaxSuppression", ["b", "s"], ["y"])], types, ["y"], opset=11), tmp_path).check()
    assert "boxes must be (N, B, 4) and scores (N, classes, B)" in finding


@pytest.mark.parametrize(
    ("scale", "corner", "samples", "problem"),
    [
        (1e38, 1e10, 0, "outside the range of float32 with the scale"),
        (1e38, 1e10, 2, "outside the range of float32 with the scale"),
        (1.0, 3e38, 2, "outside the range of float32 with the scale"),
        (1.0, 60000.0, 0, "60000 × 60000 samples of 1 channels"),
        (1.0, 3.0, 2**15, "65536 × 65536 samples of 1 channels"),
    ],
)
def test_regions_with_too_many_samples_raise_an_error(
    scale: float, corner: float, samples: int, problem: str, tmp_path: Path
) -> None:
    """The error precedes the computation: two billion samples take half a minute."""
    regions = np.array([[-corner if corner > 1e38 else 0, 0, corner, corner]], np.float32)
    options = {"mode": "max", "spatial_scale": scale, "sampling_ratio": samples}
    if corner == 60000:
        options |= {"output_height": 1, "output_width": 1}
    with pytest.raises(ex.RunError, match=problem):
        aligned(tmp_path, regions, np.zeros(1, np.int64), np.ones((1, 1, 4, 4), np.float32), **options)


def test_more_bins_than_samples_of_one_bin(tmp_path: Path) -> None:
    x, regions = np.ones((1, 1, 2, 2), np.float32), np.array([[0, 0, 2, 2]], np.float32)
    result = aligned(tmp_path, regions, np.zeros(1, np.int64), x, output_height=2**20 + 1, output_width=1)
    assert (result == 1).all()


@pytest.mark.parametrize("scale", [np.inf, np.nan])
def test_a_scale_of_regions_must_be_finite(scale: float, tmp_path: Path) -> None:
    regions = np.zeros((1, 4), np.float32)
    with refused(ex.FileError, "spatial_scale", "must be a finite number"):
        aligned(tmp_path, regions, np.zeros(1, np.int64), np.ones((1, 1, 4, 4), np.float32), spatial_scale=scale)


@pytest.mark.parametrize(
    ("overlap", "attributes", "rule"),
    [
        (-0.5, {}, "iou_threshold must be between 0 and 1"),
        (1.5, {}, "iou_threshold must be between 0 and 1"),
        (np.nan, {}, "iou_threshold must be between 0 and 1"),
        (0.5, {"center_point_box": 2}, "center_point_box must be 0 or 1"),
    ],
)
def test_invalid_overlap_thresholds_raise_an_error(
    overlap: float, attributes: dict[str, int], rule: str, tmp_path: Path
) -> None:
    """ONNX Runtime rejects them, too."""
    boxes, scores = np.float32([[[0, 0, 1, 1]]]), np.float32([[[0.5]]])
    with refused(ex.ExplorerError, rule):
        suppressed(tmp_path, boxes, scores, 5, overlap, **attributes)


@pytest.mark.filterwarnings("error")
def test_an_infinite_box_overlaps_none(tmp_path: Path) -> None:
    boxes = np.float32([[[-np.inf, -np.inf, np.inf, np.inf], [0, 0, 1, 1], [0, 0, 3e38, 3e38]]])
    result = suppressed(tmp_path, boxes, np.float32([[[0.9, 0.8, 0.7]]]), 5, 0.5)
    np.testing.assert_array_equal(result[:, 2], [0, 1, 2])
