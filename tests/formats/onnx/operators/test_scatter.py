"""Elements written or added at indices: the standard's values with Explorer's own operations, and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import explorer as ex
from tests.formats.onnx.models import FLOAT, INT64, model, node, opened
from tests.support.refusals import refused

RANDOM = np.random.default_rng(7)
X = RANDOM.normal(size=(4, 5)).astype(np.float32)


@pytest.mark.parametrize("reduction", ["none", "add", "max", "min"])
@pytest.mark.parametrize("operator", ["ScatterElements", "ScatterND"])
def test_written_and_added_elements_follow_the_standard(operator: str, reduction: str, tmp_path: Path) -> None:
    """Test repeated and negative indices and fewer rows than the data, without the reference evaluator."""
    i = np.array([[1, -1], [1, 0], [3, 2]])
    updates = RANDOM.normal(size=(3, 2) if operator == "ScatterElements" else (3,)).astype(np.float32)
    attributes = {"axis": 1} if operator == "ScatterElements" else {}
    shapes = {"x": (FLOAT, [4, 5]), "i": (INT64, [3, 2]), "u": (FLOAT, list(updates.shape))}
    proto = model([node(operator, ["x", "i", "u"], ["y"], reduction=reduction, **attributes)], shapes, ["y"])
    net, given = opened(proto, tmp_path), {"x": X, "i": i, "u": updates}
    (expected,) = ReferenceEvaluator(proto).run(None, given)
    np.testing.assert_allclose(net.run(given), expected, rtol=1e-6)
    assert not any("delegated" in label for label in net.plan(given).recording.nodes.label)


@pytest.mark.parametrize("reduction", ["max", "min"])
@pytest.mark.parametrize("operator", ["ScatterElements", "ScatterND"])
def test_nan_is_kept_as_an_extreme(operator: str, reduction: str, tmp_path: Path) -> None:
    """As in Max and in torch, independent of the order; onnx's evaluator keeps the first of both."""
    i = np.array([0, 1, 2, 3, 2, 2]).reshape(-1, *[1] * (operator == "ScatterND"))
    x, u = np.array([[1, np.nan, 1, 5, 1], [np.nan, 2, np.nan, 3, 7]], np.float32)
    u = np.append(u, np.float32(0))
    shapes = {"x": (FLOAT, [5]), "i": (INT64, [*i.shape]), "u": (FLOAT, [6])}
    net = opened(model([node(operator, ["x", "i", "u"], ["y"], reduction=reduction)], shapes, ["y"]), tmp_path)
    expected = [np.nan, np.nan, np.nan, 5 if reduction == "max" else 3, 1]
    np.testing.assert_array_equal(net.run({"x": x, "i": i, "u": u}), expected)


def test_an_index_out_of_range_raises_an_error(tmp_path: Path) -> None:
    operator = node("ScatterND", ["x", "i", "u"], ["y"])
    net = opened(model([operator], {"x": (FLOAT, [4, 5]), "i": (INT64, [1, 2]), "u": (FLOAT, [1])}, ["y"]), tmp_path)
    with pytest.raises(ex.RunError, match="row 5"):
        net.run({"x": X, "i": np.array([[0, 5]]), "u": X[0, :1]})
    gather = model([node("GatherND", ["x", "i"], ["y"])], {"x": (FLOAT, [4, 5]), "i": (INT64, [1, 2])}, ["y"])
    with pytest.raises(ex.RunError, match="row 5"):
        opened(gather, tmp_path).run({"x": X, "i": np.array([[0, 5]])})


def test_mismatching_updates_raise_an_error(tmp_path: Path) -> None:
    operator = node("ScatterElements", ["x", "i", "u"], ["y"])
    net = opened(model([operator], {"x": (FLOAT, [4, 5]), "i": (INT64, [2, 5]), "u": (FLOAT, [1, 5])}, ["y"]), tmp_path)
    with refused(ex.FileError, "ScatterElements", "update"):
        net.run({"x": X, "i": np.zeros((2, 5), int), "u": X[:1]})
