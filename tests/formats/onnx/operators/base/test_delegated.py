"""Operators computed by the onnx package's reference evaluator: marked, in separate kernels, with inferred types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, helper

import explorer as ex
from tests.formats.onnx.models import FLOAT, INT64, model, node, opened

pytestmark = pytest.mark.spec("I-5", "I-6", "I-9")


def test_a_delegated_operator_is_marked_and_not_fused(tmp_path: Path) -> None:
    nodes = [
        node("Exp", ["x"], ["a"]),
        node("CumProd", ["a", "axis"], ["b"]),
        node("Tanh", ["b"], ["c"]),
        node("Neg", ["c"], ["y"]),
    ]
    net = opened(model(nodes, {"x": (FLOAT, [2, 3])}, ["y"], {"axis": np.int64(1)}, opset=26), tmp_path)
    x = np.float32([[0.1, -0.2, 0.3], [0, 1, -1]])
    np.testing.assert_allclose(net.run(x), -np.tanh(np.cumprod(np.exp(x), 1)), rtol=1e-6)
    recording = net.plan(x).eval().recording
    assert "CumProd (delegated)" in recording.nodes.label
    kernels = [[recording.nodes.label[member] for member in kernel.nodes] for kernel in recording.schedule.kernels]
    assert ["CumProd (delegated)"] in kernels


def test_rare_forms_of_known_operators_are_delegated(tmp_path: Path) -> None:
    """The evaluator computes only forms without an operation of explorer's."""
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    nodes = [
        node("Resize", ["x", "", "", "s"], ["a"], mode="linear", antialias=1),
        node("Resize", ["x", "", "", "s"], ["b"], mode="linear"),
    ]
    sizes = {"s": np.array([1, 1, 2, 4])}
    net = opened(model(nodes, {"x": (FLOAT, [1, 1, 4, 4])}, ["a", "b"], sizes), tmp_path)
    assert net.check() == []
    results = net.run(x)
    # a triangle of twice the width, in which the outermost elements are repeated
    upper = (4 * x[..., 0, :] + 3 * x[..., 1, :] + x[..., 2, :]) / 8
    lower = (x[..., 1, :] + 3 * x[..., 2, :] + 4 * x[..., 3, :]) / 8
    np.testing.assert_allclose(results["a"], np.stack([upper, lower], -2), rtol=1e-6)
    np.testing.assert_allclose(results["b"], (x[..., ::2, :] + x[..., 1::2, :]) / 2)
    labels = net.plan(x).recording.nodes.label
    assert labels.count("Resize (delegated)") == 1
    assert any("resample" in label for label in labels)


def test_a_delegated_operator_has_no_gradient(tmp_path: Path) -> None:
    net = opened(model([node("Det", ["x"], ["y"])], {"x": (FLOAT, [20, 3, 3])}, ["y"]), tmp_path)
    x = ex.tensor(np.ones((20, 3, 3), np.float32))
    with pytest.raises(ex.OperandError, match="reference evaluator of the onnx package"):
        ex.grad(net.build(x).sum(), [x])


def test_a_shape_that_depends_on_values_is_known_once_they_are_computed(tmp_path: Path) -> None:
    """The run's plan uses the computed shape; without values the operator is still drawn."""
    net = opened(model([node("NonZero", ["x"], ["y"])], {"x": (FLOAT, [3])}, ["y"]), tmp_path)
    assert net.check() == []
    assert net.unsized() == ["NonZero_1"]
    np.testing.assert_array_equal(net.run(np.array([0, 2, 3], np.float32)), [[1, 2]])
    with pytest.raises(ex.FileError, match="the result depends on the net's inputs"):
        net.build((3,))


def test_a_shape_that_depends_on_constants_is_known(tmp_path: Path) -> None:
    proto = model(
        [node("NonZero", ["w"], ["i"]), node("Gather", ["x", "i"], ["y"], axis=0)], {"x": (INT64, [3])}, ["y"]
    )
    proto.graph.initializer.extend(model([], {}, [], {"w": np.float32([0, 2, 3])}).graph.initializer)
    net = opened(proto, tmp_path)
    np.testing.assert_array_equal(net.run(np.arange(3) * 10), [[10, 20]])


def test_operands_rejected_by_the_standard_raise_its_error(tmp_path: Path) -> None:
    net = opened(model([node("Det", ["x"], ["y"])], {"x": (FLOAT, [3])}, ["y"]), tmp_path)
    (finding,) = net.check()
    assert "operands and attributes must fit the standard's rules" in finding


@pytest.mark.parametrize(
    ("type", "attributes", "rule"),
    [
        ("GridSample", {"align_corners": 2.5}, "align_corners must be an integer"),
        ("GridSample", {"mode": [1, 2]}, "mode must be linear or nearest or cubic"),
        ("MaxUnpool", {"kernel_shape": 3}, "kernel_shape must be a list of integers"),
        ("MaxUnpool", {"kernel_shape": []}, "operands and attributes must fit the standard's rules"),
        ("BitCast", {"to": 0}, "operands and attributes must fit the standard's rules"),
        ("CumProd", {}, "operands and attributes must fit the standard's rules"),
    ],
)
def test_attributes_of_another_type_raise_an_error(
    tmp_path: Path, type: str, attributes: dict[str, Any], rule: str
) -> None:
    operands = ["x", "x"] if type in ("GridSample", "CumProd", "MaxUnpool") else ["x"]
    proto = model([node(type, operands, ["y"])], {"x": (FLOAT, [1, 1, 4, 2])}, ["y"], opset=26)
    for name, value in attributes.items():
        kind = AttributeProto.INTS if value == [] else None
        proto.graph.node[0].attribute.append(helper.make_attribute(name, value, attr_type=kind))
    (finding,) = opened(proto, tmp_path).check()
    assert rule in finding


@pytest.mark.parametrize(("shape", "axis"), [([5], None), ([5], -1), ([4, 1], 0), ([4, 1], -2)])
def test_unique_elements_along_the_first_axis_keep_their_order(
    shape: list[int], axis: int | None, tmp_path: Path
) -> None:
    attributes = {} if axis is None else {"axis": axis}
    outputs = ["y", "places", "inverse", "counts"]
    proto = model([node("Unique", ["x"], outputs, sorted=0, **attributes)], {"x": (FLOAT, shape)}, outputs)
    x = np.array([3, 1, 3, 2, 1][: shape[0]], np.float32).reshape(shape)
    results = opened(proto, tmp_path).run(x)
    places = sorted(np.unique(x, return_index=True)[1])
    np.testing.assert_array_equal(results["y"], x[places])
    np.testing.assert_array_equal(results["places"], places)
    np.testing.assert_array_equal(results["y"][results["inverse"]], x)
    assert results["counts"].tolist() == [int((x == x[place]).sum()) for place in places]
