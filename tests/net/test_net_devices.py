"""Nets on devices: weights and constants lie there, and runs give what they give on cpu."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array
from tests.support.accelerator import accelerator
from tests.support.refusals import refused

ASSETS = Path(__file__).parents[2] / "assets"
SKLEARN = ASSETS / "models" / "sklearn"
DEVICES = [accelerator.name, pytest.param("cuda", marks=pytest.mark.gpu)]
IMAGES: Array = np.load(ASSETS / "digits.npz")["images"][:3]
FILES = [
    *("digits.onnx", "digits_int8.onnx", "digits_rows.onnx", "digits.pnnx.param", "digits_opt1.pnnx.param"),
    *[f"models/sklearn/{name}.onnx" for name in ("process", "mixture", "normalized_bits", "vectors_of_numbers")],
]


def example(net: Any) -> dict[str, Array]:
    """Arrays of the shapes and dtypes that a net's file notes."""
    generator, arrays = np.random.default_rng(0), {}
    for name, shape in net.example_shapes().items():
        dtype = np.dtype(net.inputs[name].dtype or "float32")
        arrays[name] = generator.normal(size=shape).astype(dtype)
    return arrays


def values(result: Any) -> list[Array]:
    return [*result.values()] if isinstance(result, dict) else [result]


def copies() -> list[str]:
    """Copies to and from the accelerator, and on it, that were asked for since the last look."""
    entries = [entry for entry in accelerator.log if entry.startswith(("write", "read", "direct"))]
    accelerator.log.clear()
    return entries


@pytest.mark.spec("C-1", "I-1")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("file", FILES)
def test_a_model_file_runs_on_a_device(file: str, device: str) -> None:
    """After net.to_device() its weights and constants lie there; outputs are NumPy's, as on cpu."""
    net = ex.open(ASSETS / file)
    arrays = example(net)
    expected = values(net.run(arrays))
    numbers = values(net.to_device(device).run(arrays))
    assert net.device is ex.device(device)
    assert {node.device for node in net.session.build_for(net.session.arrays((arrays,), {}), net.device).roots} == {
        net.device
    }
    for array, other in zip(numbers, expected, strict=True):
        assert (array.shape, array.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(array, other, rtol=1e-4, atol=1e-5)


@pytest.mark.spec("C-1", "I-1")
def test_weights_are_copied_to_a_device_once() -> None:
    """At the first run; later ones copy the input there and the output back, and keep no second copy on cpu."""
    net = ex.open(ASSETS / "digits.onnx").to_device("accelerator")
    weights = [weight for operator in net.operators.values() for weight in operator.weights]
    copies()
    net.run(IMAGES)
    assert len([entry for entry in copies() if entry.startswith("write")]) >= len(weights) > 1
    net.run(IMAGES)
    assert copies() == [f"write {IMAGES.nbytes}", "read 120"]
    # another batch is another program, with the same weights on the device
    net.run(IMAGES[:2])
    assert sum(entry.startswith("write") for entry in copies()) == 1


@pytest.mark.spec("C-1", "I-3")
@pytest.mark.parametrize("device", DEVICES)
def test_a_net_runs_where_its_inputs_are(device: str) -> None:
    """Tensors on a device take the net there, with its weights; arrays run on cpu as before."""
    net = ex.open(ASSETS / "digits.onnx")
    expected = net.run(IMAGES)
    x = ex.tensor(IMAGES, device=device)
    y = net.build(x)
    assert y.device is ex.device(device)
    np.testing.assert_allclose(ex.evaluate(y), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(net.run(x), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(net.run({"image": x}), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(net.run(IMAGES), expected)
    assert net.device is ex.cpu
    if device == accelerator.name:
        copies()
        net.run(x)
        assert copies() == ["read 120"]


@pytest.mark.spec("C-1")
def test_a_replaced_weight_follows_to_the_device() -> None:
    net, expected = ex.open(ASSETS / "digits.onnx").to_device("accelerator"), ex.open(ASSETS / "digits.onnx")
    net.run(IMAGES)
    for each in (net, expected):
        operator = next(operator for operator in each.operators.values() if operator.type == "Gemm")
        weight = next(iter(operator.weights))
        operator.weights[weight] = operator.weights[weight].array * 0.5
    np.testing.assert_allclose(net.run(IMAGES), expected.run(IMAGES), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(net.to_device("cpu").run(IMAGES), expected.run(IMAGES), rtol=1e-5)


@pytest.mark.spec("C-1")
def test_inputs_on_another_device_are_refused_by_name() -> None:
    net = ex.open(ASSETS / "digits.onnx").to_device("accelerator")
    with refused(ex.OperandError, "an input on cpu", "net 'digits' on accelerator", "x.to_device('accelerator')"):
        net.build(ex.tensor(IMAGES))
    with pytest.raises(ex.UnknownNameError, match="accelerater"):
        net.to_device("accelerater")
    with pytest.raises(AttributeError, match=r"no operator type 'to': use net.to_device\('cuda'\)"):
        net.to("cuda")


@pytest.mark.spec("C-1")
@pytest.mark.parametrize(
    ("file", "name", "problem"),
    [
        ("boosting_of_numbers", "TreeEnsembleRegressor", "decision_trees on accelerator"),
        ("vectors", "SVMc", "texts lie on cpu alone"),
    ],
)
def test_an_operator_that_a_device_cannot_do_is_named(file: str, name: str, problem: str) -> None:
    """The error names the operator of the file, the operation, and net.to_device('cpu'), after which it runs."""
    net = ex.open(SKLEARN / f"{file}.onnx")
    arrays = example(net)
    expected = values(net.run(arrays))
    net.to_device("accelerator")
    with refused(ex.FileError, f"operator {name!r}", problem, "net.to_device('cpu')"):
        net.run(arrays)
    for result, other in zip(values(net.to_device("cpu").run(arrays)), expected, strict=True):
        np.testing.assert_array_equal(result, other)


@pytest.mark.spec("C-1", "I-3")
def test_operands_of_a_net_on_a_device_are_compared_and_watched() -> None:
    """Values inside fused kernels, too, which are computed there and read."""
    there, here = ex.open(ASSETS / "digits.onnx").to_device("accelerator"), ex.open(ASSETS / "digits.onnx")
    assert "all agree" in str(there.compare(here, IMAGES))
    assert "all agree" in str(here.compare(there, IMAGES))
    plan = there.plan(IMAGES, record="values").eval()
    assert plan.recording.run is not None
    assert len(plan.recording.run.values) > 10
    assert "Conv" in str(there.profile(IMAGES))
    name = next(iter(there.outputs))
    assert there.cut(outputs=[name]).device is accelerator


@pytest.mark.spec("C-1")
@pytest.mark.parametrize("device", DEVICES)
def test_constants_and_draws_follow_to_a_device(device: str) -> None:
    """Random numbers are those that cpu draws."""

    def net(place: str) -> Any:
        written = ex.Net("written")
        written.input("x", (None, 3))
        written.ConstantFill([], "ones", shape=(3,), value=2.0)
        written.UniformFill([], "noise", shape=(3,), seed=1)
        written.Add(["x", "ones"], "y")
        written.Mul(["y", "noise"], "z")
        written.output("z")
        return written.to_device(place)

    x = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(net(device).run(x), net("cpu").run(x), rtol=1e-6)


@pytest.mark.spec("C-1")
def test_an_array_beside_a_tensor_on_a_device_is_placed_there() -> None:
    net = ex.Net("sum")
    net.output(net.Add([net.input("x", (3,)), net.input("y", (3,))], "z"))
    x, y = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    total = net.build(ex.tensor(x, device=accelerator), y)
    assert total.device is accelerator
    np.testing.assert_array_equal(ex.evaluate(total), x + y)
    np.testing.assert_array_equal(net.run(x, ex.tensor(y, device=accelerator)), x + y)
