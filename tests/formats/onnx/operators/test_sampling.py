"""Images sampled at grid points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.formats.onnx.models import FLOAT, model, node, opened


def cubic(at: float, elements: np.ndarray) -> np.ndarray:
    """Return cubic interpolation with coefficient −0.75 at a position of the first axis, whose ends are repeated."""
    first, total = int(np.floor(at)), np.zeros(elements.shape[1:])
    for tap in range(first - 1, first + 3):
        d = abs(at - tap)
        near, far = (1.25 * d - 2.25) * d * d + 1, ((-0.75 * d + 3.75) * d - 6) * d + 3
        total = total + (near if d <= 1 else far) * elements[min(max(tap, 0), len(elements) - 1)]
    return total


@pytest.mark.parametrize("aligned", [0, 1])
def test_cubics_read_repeated_elements_beyond_the_border(aligned: int, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(1, 2, 3, 4)).astype(np.float32)
    grid = random.uniform(-1.8, 1.8, (1, 5, 2, 2)).astype(np.float32)
    operator = node("GridSample", ["x", "g"], ["y"], mode="cubic", padding_mode="border", align_corners=aligned)
    net = opened(model([operator], {"x": (FLOAT, x.shape), "g": (FLOAT, grid.shape)}, ["y"]), tmp_path)
    value = net.run({"x": x, "g": grid})
    for i, j in np.ndindex(5, 2):
        across, down = [
            (point + 1) / 2 * (length - 1) if aligned else ((point + 1) * length - 1) / 2
            for point, length in zip(grid[0, i, j], (4, 3), strict=True)
        ]
        rows = cubic(down, np.moveaxis(x[0].astype(np.float64), 1, 0))  # channels, columns
        np.testing.assert_allclose(value[0, :, i, j], cubic(across, rows.T), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("old", "new"), [("bilinear", "linear"), ("bicubic", "cubic")])
def test_modes_have_other_names_before_opset_20(old: str, new: str, padding: str, tmp_path: Path) -> None:
    """torch's exporter writes bilinear and bicubic in opsets 16 to 19."""
    random = np.random.default_rng(1)
    x = random.normal(size=(1, 2, 3, 4)).astype(np.float32)
    grid = random.uniform(-1.2, 1.2, (1, 3, 2, 2)).astype(np.float32)
    types = {"x": (FLOAT, x.shape), "g": (FLOAT, grid.shape)}
    values = []
    for mode, opset in ((old, 16), (new, 20)):
        operator = node("GridSample", ["x", "g"], ["y"], mode=mode, padding_mode=padding)
        values.append(opened(model([operator], types, ["y"], opset=opset), tmp_path).run({"x": x, "g": grid}))
    np.testing.assert_array_equal(*values)


def test_points_among_many_axes_raise_an_error(tmp_path: Path) -> None:
    """Each axis multiplies the elements read per point by two or four: a short file must not record a million."""
    x, grid = np.ones((1,) * 11, np.float32), np.zeros((*[1] * 10, 9), np.float32)
    types = {"x": (FLOAT, x.shape), "g": (FLOAT, grid.shape)}
    net = opened(model([node("GridSample", ["x", "g"], ["y"], mode="cubic")], types, ["y"]), tmp_path)
    (finding,) = net.check()
    assert "elements around a point claims 262,144 steps" in finding
