"""Models of opsets before 11 are upgraded when opened; tests/soak contains the standard's files in these opsets."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

import explorer as ex
from explorer.formats.onnx.opset_upgrade import upgraded_model
from tests.formats.onnx.models import BOOL, FLOAT, model, node, opened

pytestmark = pytest.mark.spec("I-5", "I-6", "I-9")

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7


def test_an_old_model_is_upgraded_and_reports_it(tmp_path: Path) -> None:
    """Before opset 7 broadcasting was an attribute; weights of any size are unchanged."""
    weights = np.arange(3 * 4 * 100, dtype=np.float32).reshape(12, 100)
    nodes = [
        node("Add", ["x", "b"], ["a"], broadcast=1),
        node("Reshape", ["a", "s"], ["r"]),
        node("Gemm", ["r", "w", "c"], ["y"], broadcast=1),
    ]
    bias, c = np.float32([1, 2, 3, 4]), np.ones(100, np.float32)
    constants = {"b": bias, "s": np.int64([2, 12]), "w": weights, "c": c}
    net = opened(model(nodes, {"x": (FLOAT, X.shape)}, ["y"], constants, opset=6), tmp_path)
    assert "upgraded from opset 6 to 13" in dict(net.definition.metadata)["note"]
    assert net.check() == []
    expected = (X + bias).reshape(2, 12) @ weights + c
    np.testing.assert_allclose(net.run(X), expected, rtol=1e-6)


def test_slopes_are_aligned_with_the_channels(tmp_path: Path) -> None:
    """The converter does not change PRelu, so that square images would broadcast slopes along columns."""
    x, slopes = X[:, :, :3], np.float32([1, 10, 100])
    for opset, along in ((6, slopes[:, None]), (13, slopes)):
        proto = model([node("PRelu", ["x", "s"], ["y"])], {"x": (FLOAT, x.shape)}, ["y"], {"s": slopes}, opset=opset)
        np.testing.assert_array_equal(opened(proto, tmp_path).run(x), np.where(x < 0, x * along, x))


def test_a_model_whose_operators_are_unchanged_is_not_converted() -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, [3])}, ["y"], opset=8)
    upgrade = upgraded_model(proto)
    assert upgrade.model is proto
    assert upgrade.remark == ""


def test_a_model_rejected_by_the_converter_is_shown_as_it_is(tmp_path: Path) -> None:
    nodes = [node("Add", ["x", "b"], ["y"], broadcast=1, axis=1)]
    proto = model(nodes, {"x": (FLOAT, X.shape)}, ["y"], {"b": np.ones(3, np.float32)}, opset=6)
    net = opened(proto, tmp_path)
    assert (
        "opset 6 could not be upgraded: Dimension 0 of input 2 does not match" in dict(net.definition.metadata)["note"]
    )
    assert [unknown.type for unknown in net.unknown()] == ["Add (opset 6)"]
    words = "this model has opset 6, .*converter could not upgrade it"
    listed = r"1 unknown operator type\n    Add \(opset 6\): 'Add_1' \(line 1\)\n"
    with pytest.raises(ex.FileError, match=f"(?s){listed}.*{words}"):
        net.run(X)
    (finding,) = net.check()
    assert re.search(words, finding)
    assert "near" not in finding
    assert "convert_version(model, 13)" in finding
    (problem,) = net.problems().values()
    assert "export the model again with opset 11 or newer" in problem.fix


@pytest.mark.parametrize(
    ("opset", "said"),
    [(0, "opset, 0, must be between 1 and"), (999, "pip install --upgrade onnx"), (None, "must declare the opset")],
)
def test_the_error_of_an_unknown_opset_contains_its_number(opset: int | None, said: str, tmp_path: Path) -> None:
    proto = model([node("Add", ["x", "x"], ["y"])], {"x": (FLOAT, [3])}, ["y"])
    del proto.opset_import[:]
    if opset is not None:
        proto.opset_import.add(version=opset)
    with pytest.raises(ex.FileError, match=said):
        opened(proto, tmp_path).run(np.ones(3, np.float32))


def test_external_weights_survive_the_upgrade(tmp_path: Path) -> None:
    weights = np.arange(600, dtype=np.float32).reshape(3, 200)
    proto = model(
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
    proto.graph.initializer.append(stored)
    net = opened(proto, tmp_path)
    np.testing.assert_array_equal(net.run(np.ones((1, 3, 200), np.float32)), weights[None] + 1)


@pytest.mark.parametrize("opset", [7, 9, 10])
def test_old_resampling_divides_positions_by_scales(opset: int, tmp_path: Path) -> None:
    """The converter omits that positions were divided by the scale, counted from the corner."""
    x, scales = np.float32([[[[0, 10, 30, 60]]]]), np.float32([1, 1, 1, 2])
    old = "Resize" if opset == 10 else "Upsample"
    for mode, expected in (
        ("linear", [0, 5, 10, 20, 30, 45, 60, 60]),
        ("nearest", [0, 0, 10, 10, 30, 30, 60, 60]),
    ):
        if opset == 7:
            proto = model([node(old, ["x"], ["y"], mode=mode, scales=scales)], {"x": (FLOAT, x.shape)}, ["y"], opset=7)
        else:
            nodes = [node(old, ["x", "s"], ["y"], mode=mode)]
            proto = model(nodes, {"x": (FLOAT, x.shape)}, ["y"], {"s": scales}, opset=opset)
        net = opened(proto, tmp_path)
        np.testing.assert_array_equal(net.run(x), np.float32(expected).reshape(1, 1, 1, 8))
        net.save(tmp_path / "new.onnx")
        np.testing.assert_array_equal(ex.open(tmp_path / "new.onnx").run(x), net.run(x))


def test_upsampling_in_a_net_and_in_a_branch_divides_positions_by_scales(tmp_path: Path) -> None:
    """The converter renames its results, and converts branches to the other opset, too."""
    x, scales = np.float32([[[[0, 10, 30, 60]]]]), {"s": np.float32([1, 1, 1, 2])}
    expected = -np.float32([0, 5, 10, 20, 30, 45, 60, 60]).reshape(1, 1, 1, 8)
    nodes = [node("Upsample", ["x", "s"], ["u"], mode="linear"), node("Neg", ["u"], ["y"])]
    inner = opened(model(nodes, {"x": (FLOAT, x.shape)}, ["y"], scales, opset=9), tmp_path)
    np.testing.assert_array_equal(inner.run(x), expected)
    branch = helper.make_graph(nodes, "branch", [], [helper.make_tensor_value_info("y", FLOAT, None)])
    other = helper.make_graph(
        [node("Unsqueeze", ["x"], ["l"], axes=[0]), node("Squeeze", ["l"], ["n"], axes=[0])],
        "other",
        [],
        [helper.make_tensor_value_info("n", FLOAT, None)],
    )
    proto = model(
        [node("If", ["c"], ["z"], then_branch=branch, else_branch=other)],
        {"x": (FLOAT, x.shape), "c": (BOOL, ())},
        ["z"],
        scales,
        opset=9,
    )
    net = opened(proto, tmp_path)
    np.testing.assert_array_equal(net.run(x, np.array(True)), expected)
    np.testing.assert_array_equal(net.run(x, np.array(False)), x)


@pytest.mark.parametrize(
    ("scales", "expected"),
    [
        ([1, 1, 0.6, 0.6], [[1, 3]]),  # test_resize_downsample_nearest in the standard
        ([1, 1, 2, 0.6], [[1, 3], [1, 3], [5, 7], [5, 7]]),
        ([1, 1, 1, 1.5], [[1, 1, 2, 3, 3, 4], [5, 5, 6, 7, 7, 8]]),
    ],
)
def test_nearest_elements_of_opset_10_are_rounded_up_when_an_axis_shrinks(
    scales: list[float], expected: list[list[float]], tmp_path: Path
) -> None:
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    nodes = [node("Resize", ["x", "s"], ["y"], mode="nearest")]
    net = opened(model(nodes, {"x": (FLOAT, x.shape)}, ["y"], {"s": np.float32(scales)}, opset=10), tmp_path)
    np.testing.assert_array_equal(net.run(x)[0, 0], expected)
    if min(scales[2:]) < 1 < max(scales):  # newer opsets cannot express it
        with pytest.raises(ex.ExplorerError, match="nearest_mode"):
            net.save(tmp_path / "new.onnx")


def test_hardmax_flattened_all_axes_from_axis_one(tmp_path: Path) -> None:
    expected = np.zeros_like(X)
    expected[:, -1, -1] = 1
    proto = model([node("Hardmax", ["x"], ["y"])], {"x": (FLOAT, X.shape)}, ["y"], opset=9)
    np.testing.assert_array_equal(opened(proto, tmp_path).run(X), expected)


def test_normalization_over_the_batch_is_read_as_its_function(tmp_path: Path) -> None:
    x = np.arange(48, dtype=np.float32).reshape(2, 3, 2, 4)
    proto = model([node("MeanVarianceNormalization", ["x"], ["y"])], {"x": (FLOAT, x.shape)}, ["y"], opset=9)
    axes = (0, 2, 3)
    expected = (x - x.mean(axes, keepdims=True)) / x.std(axes, keepdims=True)
    np.testing.assert_allclose(opened(proto, tmp_path).run(x), expected, rtol=1e-5)
