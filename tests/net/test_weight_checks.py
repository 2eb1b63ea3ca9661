"""Plans of nets check the values of weights before they change them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer as ex

RANDOM = np.random.default_rng(5)
FILTERS = RANDOM.normal(size=(4, 3, 1, 1)).astype(np.float32)
IMAGES = RANDOM.normal(size=(2, 3, 8, 8)).astype(np.float32)
GOOD = {"scale": (1.0, 2.0), "shift": (-1.0, 1.0), "mean": (-1.0, 1.0), "variance": (0.5, 2.0)}


def opened(tmp_path: Any, nodes: list[Any], weights: dict[str, Any], shape: tuple[Any, ...], rank: int) -> ex.Net:
    """Return a net from a file with one input x and one output y."""
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    asked = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)
    held = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", [given], [asked], held)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "net.onnx"
    )
    return ex.open(tmp_path / "net.onnx")


def normed(tmp_path: Any, **changed: tuple[float, float]) -> tuple[ex.Net, dict[str, Any]]:
    """Return a convolution with a batch normalization whose statistics are in given ranges."""
    stored = {name: RANDOM.uniform(*ends, 4).astype(np.float32) for name, ends in {**GOOD, **changed}.items()}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", *stored], ["y"], epsilon=1e-5),
    ]
    return opened(tmp_path, nodes, {"w": FILTERS, **stored}, (2, 3, 8, 8), 4), stored


def codes(net: ex.Net) -> tuple[set[str], set[str]]:
    decisions = net.plan(IMAGES).recording.decisions
    applied = {each.code for each in decisions if each.verdict == "applied"}
    return applied, {each.code for each in decisions if each.verdict == "declined"}


def right(filters: Any, stored: dict[str, Any]) -> Any:
    wide = {name: np.asarray(value, np.longdouble).reshape(4, 1, 1) for name, value in stored.items()}
    product = np.einsum("nchw,oc->nohw", IMAGES.astype(np.longdouble), filters[:, :, 0, 0].astype(np.longdouble))
    return (product - wide["mean"]) / np.sqrt(wide["variance"] + np.float32(1e-5)) * wide["scale"] + wide["shift"]


@pytest.mark.spec("U-3", headline=True)
def test_a_batch_normalization_is_folded_into_the_convolution_if_no_value_overflows(tmp_path: Any) -> None:
    """Fold a batch normalization with stored statistics into the convolution before it, if no value overflows."""
    net, stored = normed(tmp_path)
    applied, declined = codes(net)
    assert {"factor_into_weights", "terms_of_weights"} <= applied
    assert "harmful_values" not in declined
    np.testing.assert_allclose(net.run(IMAGES), right(FILTERS, stored).astype(np.float32), rtol=1e-4, atol=1e-5)


@pytest.mark.spec("U-3")
@pytest.mark.parametrize(
    "changed",
    [
        {"scale": (1e38, 2e38)},
        {"scale": (1e-38, 2e-38)},
        {"scale": (1e-44, 1e-43)},
        {"variance": (1e-45, 1e-44), "scale": (1e36, 2e36)},
        {"scale": (-3e38, -2e38)},
        {"scale": (1e30, 2e30)},
        {"mean": (1e7, 2e7)},
        {"shift": (1e8, 2e8)},
        {"mean": (-3e38, -2e38), "scale": (10.0, 20.0)},
        {"scale": (np.inf, np.inf)},
        {"shift": (np.nan, np.nan)},
    ],
    ids=str,
)
def test_harmful_values_are_declined_with_the_numbers(tmp_path: Any, changed: Any) -> None:
    """Test a weight that overflows or underflows, and a constant much larger than the product; values equal the bare
    plan's."""
    with np.errstate(all="ignore"):
        nodes = {name: np.full(4, ends[0], np.float32) for name, ends in changed.items()}
        stored = {**{name: np.full(4, ends[0], np.float32) for name, ends in GOOD.items()}, **nodes}
    net = opened(
        tmp_path,
        [
            helper.make_node("Conv", ["x", "w"], ["c"]),
            helper.make_node("BatchNormalization", ["c", *stored], ["y"], epsilon=1e-5),
        ],
        {"w": FILTERS, **stored},
        (2, 3, 8, 8),
        4,
    )
    plan = net.plan(IMAGES)
    told = [each for each in plan.recording.decisions if each.code == "harmful_values"]
    assert told
    assert all(each.facts["harm"] for each in told)
    with np.errstate(all="ignore"):
        result = net.run(IMAGES)
        bare = ex.evaluate(net.build(ex.tensor(IMAGES)), without=["simplify", "fuse"])
    np.testing.assert_allclose(result, bare, rtol=2e-5)


@pytest.mark.spec("U-3")
def test_a_plan_is_made_again_when_a_weight_changes(tmp_path: Any) -> None:
    """A previously harmless value is checked again."""
    net, _ = normed(tmp_path)
    assert "factor_into_weights" in codes(net)[0]
    net.run(IMAGES)
    _, norm = net.operators
    net[norm].weights["scale"] = np.full(4, 1e38, np.float32)
    assert "harmful_values" in codes(net)[1]
    assert np.isfinite(net.run(IMAGES * 1e-6)).all()


@pytest.mark.spec("U-3")
@pytest.mark.parametrize("numerics", ["safe", "fast"])
def test_standardized_inputs_keep_their_digits(tmp_path: Any, numerics: Any) -> None:
    """In (x − m) / s @ W, m moves past the product only on request, because m may be large."""
    mean, deviation, weights = np.full(8, 101325.0), np.full(8, 2.0), RANDOM.normal(size=(8, 4))
    nodes = [
        helper.make_node("Sub", ["x", "m"], ["a"]),
        helper.make_node("Div", ["a", "s"], ["b"]),
        helper.make_node("MatMul", ["b", "W"], ["y"]),
    ]
    net = opened(tmp_path, nodes, {"m": mean, "s": deviation, "W": weights}, ("n", 8), 2)
    x = (mean + RANDOM.normal(size=(5, 8)) * deviation).astype(np.float32)
    plan = net.plan(x, numerics=numerics)
    result = plan.eval() and plan.planned.graph
    error = np.abs(net.run(x) - (x.astype(float) - mean) / deviation @ weights.astype(np.float32)).max()
    assert error < 1e-5
    moved = "norm_into_weights" in [each.code for each in plan.recording.decisions if each.verdict == "applied"]
    assert moved is (numerics == "fast")
    assert result is not None


@pytest.mark.spec("U-3")
def test_rounding_with_a_large_number_still_works(tmp_path: Any) -> None:
    """Programs round with x @ W + 1.5·2²³ − 1.5·2²³, whose constants must not be combined to 0."""
    large, weights = np.float32(1.5 * 2**23), RANDOM.normal(size=(3, 2))
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["a"]),
        helper.make_node("Add", ["a", "large"], ["b"]),
        helper.make_node("Sub", ["b", "large"], ["y"]),
    ]
    net = opened(tmp_path, nodes, {"W": weights, "large": np.full(2, large)}, (6, 3), 2)
    x = RANDOM.normal(size=(6, 3)).astype(np.float32) * 9
    result = net.run(x)
    np.testing.assert_array_equal(result, np.round(result))


@pytest.mark.spec("U-3")
def test_constants_far_larger_than_the_weights_are_not_computed_to_check_them(tmp_path: Any) -> None:
    """A small file may declare a scale that is a sum of millions of numbers."""
    nodes = [
        helper.make_node("ConstantOfShape", ["length"], ["long"]),
        helper.make_node("ReduceSum", ["long"], ["sum"], keepdims=0),
        helper.make_node("Add", ["sum", "w"], ["scale"]),
        helper.make_node("MatMul", ["x", "m"], ["product"]),
        helper.make_node("Mul", ["product", "scale"], ["y"]),
    ]
    held = [
        numpy_helper.from_array(np.array([1 << 23], np.int64), "length"),
        numpy_helper.from_array(np.ones(3, np.float32), "w"),
        numpy_helper.from_array(np.ones((4, 3), np.float32), "m"),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 4))
    asked = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 3))
    graph = helper.make_graph(nodes, "g", [given], [asked], held)
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    net = ex.open(path)
    declined = [each for each in net.preview_plan().recording.decisions if each.code == "harmful_values"]
    assert [each.verdict for each in declined] == ["declined"]
    np.testing.assert_array_equal(net.run(np.ones((2, 4), np.float32)), np.full((2, 3), 4, np.float32))
