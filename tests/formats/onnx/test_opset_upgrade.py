"""Models of opsets before 11, upgraded when they are opened; the standard's own files of them are in tests/soak."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from explorer.formats.onnx.opset_upgrade import upgraded_model
from tests.formats.onnx.models import FLOAT, model, node, opened

pytestmark = pytest.mark.spec("I-5", "I-6", "I-9")

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7


def test_an_old_model_is_upgraded_and_says_so(tmp_path: Path) -> None:
    """Before opset 7 broadcasting was said by an attribute; weights come through unchanged, however large."""
    weights = np.arange(3 * 4 * 100, dtype=np.float32).reshape(12, 100)
    nodes = [
        node("Add", ["x", "b"], ["a"], broadcast=1),
        node("Reshape", ["a", "s"], ["r"]),
        node("Gemm", ["r", "w", "c"], ["y"], broadcast=1),
    ]
    bias, c = np.float32([1, 2, 3, 4]), np.ones(100, np.float32)
    constants = {"b": bias, "s": np.int64([2, 12]), "w": weights, "c": c}
    net = opened(model(nodes, {"x": (FLOAT, X.shape)}, ["y"], constants, opset=6), tmp_path)
    assert "upgraded from opset 6 to 13" in net.definition.doc
    assert net.check() == []
    expected = (X + bias).reshape(2, 12) @ weights + c
    np.testing.assert_allclose(net.run(X), expected, rtol=1e-6)


def test_slopes_lay_along_the_channels(tmp_path: Path) -> None:
    """The converter leaves PRelu as it is: without a mark, square images would take slopes for columns."""
    x, slopes = X[:, :, :3], np.float32([1, 10, 100])
    for opset, along in ((6, slopes[:, None]), (13, slopes)):
        made = model([node("PRelu", ["x", "s"], ["y"])], {"x": (FLOAT, x.shape)}, ["y"], {"s": slopes}, opset=opset)
        np.testing.assert_array_equal(opened(made, tmp_path).run(x), np.where(x < 0, x * along, x))


def test_a_model_whose_operators_mean_the_same_is_left_as_it_is() -> None:
    made = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, [3])}, ["y"], opset=8)
    upgrade = upgraded_model(made)
    assert upgrade.model is made
    assert upgrade.remark == ""


def test_a_model_that_the_converter_refuses_is_shown_as_it_stands(tmp_path: Path) -> None:
    nodes = [node("Add", ["x", "b"], ["y"], broadcast=1, axis=1)]
    made = model(nodes, {"x": (FLOAT, X.shape)}, ["y"], {"b": np.ones(3, np.float32)}, opset=6)
    net = opened(made, tmp_path)
    assert "opset 6 could not be upgraded: Dimension 0 of input 2 does not match" in net.definition.doc
    assert [unknown.type for unknown in net.unknown()] == ["Add (opset 6)"]


def test_weights_beside_the_file_come_through(tmp_path: Path) -> None:
    weights = np.arange(600, dtype=np.float32).reshape(3, 200)
    made = model(
        [node("Unsqueeze", ["w"], ["u"], axes=[0]), node("Add", ["x", "u"], ["y"])],
        {"x": (FLOAT, [1, 3, 200])},
        ["y"],
        opset=9,
    )
    stored = numpy_helper.from_array(weights, "w")
    (tmp_path / "w.bin").write_bytes(stored.raw_data)
    stored.ClearField("raw_data")
    stored.data_location = 1
    entry = stored.external_data.add()
    entry.key, entry.value = "location", "w.bin"
    made.graph.initializer.append(stored)
    net = opened(made, tmp_path)
    np.testing.assert_array_equal(net.run(np.ones((1, 3, 200), np.float32)), weights[None] + 1)
