"""Resizing of images by fractional scales selects the elements that PyTorch selects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.formats.onnx.models import FLOAT, model, node, opened
from tests.support.refusals import refused

WIDER = [0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 5, 6, 7, 7, 8, 8, 9, 10]
"""interpolate(arange(11), scale_factor=1.7, mode="nearest"): the last position is 17 / 1.7, which is 10"""
NARROWER = [0, 1, 2, 4, 5, 7, 8]
"""interpolate(arange(10), scale_factor=0.7, mode="nearest"): 10 × 0.7 are 7 elements"""
LONG = [min(13, int(np.float32(index) * np.float32(14 / 46))) for index in range(46)]
"""interpolate(arange(14), size=46, mode="nearest"), where 23 × (14 / 46) is below 7"""


def resized(folder: Path, length: int, scale: float, **attributes: Any) -> Any:
    """Return an ONNX file's result for a range of integers, resized along one axis."""
    scales = np.array([1, 1, scale], np.float32)
    operator = node("Resize", ["x", "", "s"], ["y"], **attributes)
    net = opened(model([operator], {"x": (FLOAT, [1, 1, length])}, ["y"], {"s": scales}, opset=18), folder)
    return net.run(np.arange(length, dtype=np.float32)[None, None])[0, 0]


def interpolated(folder: Path, length: int, target: str) -> Any:
    """Return a PNNX file's result for a range of integers."""
    lines = [
        "7767517",
        "3 2",
        f"pnnx.Input i 0 1 x #x=(1,1,{length})f32",
        f"F.interpolate r 1 1 x y mode=nearest {target} $input=x",
        "pnnx.Output o 1 0 y",
    ]
    (folder / "m.param").write_text("\n".join(lines) + "\n")
    return ex.open(folder / "m.param").run(np.arange(length, dtype=np.float32)[None, None])[0, 0]


@pytest.mark.spec("I-6")
@pytest.mark.parametrize(("length", "scale", "expected"), [(11, 1.7, WIDER), (10, 0.7, NARROWER)])
def test_nearest_elements_equal_those_of_torch(tmp_path: Path, length: int, scale: float, expected: list[int]) -> None:
    """Scales have single precision in both formats: 17 / 1.7 is element 10, and 10 × 0.7 are 7 elements."""
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    assert resized(tmp_path, length, scale, **nearest).tolist() == expected
    assert interpolated(tmp_path, length, f"scale_factor=({scale})").tolist() == expected


@pytest.mark.spec("I-6")
def test_sizes_become_single_precision_ratios(tmp_path: Path) -> None:
    """The nearest elements equal torch's where double precision would select the next one."""
    result = interpolated(tmp_path, 14, "size=(46)")
    assert result.tolist() == LONG
    assert result[23] == 6


@pytest.mark.spec("I-6")
@pytest.mark.parametrize(("mode", "within"), [("linear", 1e-6), ("cubic", 1e-5)])
def test_aligned_corners_are_kept(tmp_path: Path, mode: str, within: float) -> None:
    """The outermost elements stay, although a scale of 1.7 makes 18 of 11 elements."""
    result = resized(tmp_path, 11, 1.7, mode=mode, coordinate_transformation_mode="align_corners")
    assert result.shape == (18,)
    np.testing.assert_allclose(result[[0, -1]], [0, 10], atol=within)
    if mode == "linear":
        np.testing.assert_allclose(result, np.linspace(0, 10, 18), atol=within)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e30])
def test_invalid_scales_raise_an_error(tmp_path: Path, scale: float) -> None:
    with refused(ex.FileError, "scale", "size"):
        resized(tmp_path, 4, scale)
