"""Nets on devices: their weights and constants are there, and results equal those on the CPU."""

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
    """Return arrays with the shapes and dtypes in a net's file."""
    generator, arrays = np.random.default_rng(0), {}
    for name, shape in net.example_shapes().items():
        dtype = np.dtype(net.inputs[name].dtype or "float32")
        arrays[name] = generator.normal(size=shape).astype(dtype)
    return arrays


def values(result: Any) -> list[Array]:
    return [*result.values()] if isinstance(result, dict) else [result]


def copies() -> list[str]:
    """Return the copies to, from and on the accelerator since the last call."""
    entries = [entry for entry in accelerator.log if entry.startswith(("write", "read", "direct"))]
    accelerator.log.clear()
    return entries


@pytest.mark.spec("C-1", "I-1")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("file", FILES)
def test_a_model_file_runs_on_a_device(file: str, device: str) -> None:
    """After net.to_device() weights and constants are on the device; outputs are NumPy arrays, as on the CPU."""
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
    """They are copied in the first run; later ones copy only input and output, and keep no second copy on the CPU."""
    net = ex.open(ASSETS / "digits.onnx").to_device("accelerator")
    weights = [weight for operator in net.operators.values() for weight in operator.weights]
    copies()
    net.run(IMAGES)
    assert len([entry for entry in copies() if entry.startswith("write")]) >= len(weights) > 1
    net.run(IMAGES)
    assert copies() == [f"write {IMAGES.nbytes}", "read 120"]
    # another batch size needs another program, with the same weights on the device
    net.run(IMAGES[:2])
    assert sum(entry.startswith("write") for entry in copies()) == 1


@pytest.mark.spec("C-1", "I-3")
@pytest.mark.parametrize("device", DEVICES)
def test_a_net_runs_on_the_device_of_its_inputs(device: str) -> None:
    """Tensors on a device move the net and its weights there; arrays still run on the CPU."""
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
def test_a_replaced_weight_is_copied_to_the_device() -> None:
    net, expected = ex.open(ASSETS / "digits.onnx").to_device("accelerator"), ex.open(ASSETS / "digits.onnx")
    net.run(IMAGES)
    for each in (net, expected):
        operator = next(operator for operator in each.operators.values() if operator.type == "Gemm")
        weight = next(iter(operator.weights))
        operator.weights[weight] = operator.weights[weight].array * 0.5
    np.testing.assert_allclose(net.run(IMAGES), expected.run(IMAGES), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(net.to_device("cpu").run(IMAGES), expected.run(IMAGES), rtol=1e-5)


@pytest.mark.spec("C-1")
def test_inputs_on_another_device_raise_an_error_with_their_name() -> None:
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
def test_the_error_of_an_operator_unsupported_on_a_device_contains_the_fix(file: str, name: str, problem: str) -> None:
    """It has the operator in the file, the operation, and net.to_device('cpu'), after which the net runs."""
    net = ex.open(SKLEARN / f"{file}.onnx")
    arrays = example(net)
    expected = values(net.run(arrays))
    net.to_device("accelerator")
    with refused(ex.FileError, f"operator {name!r}", problem, "net.to_device('cpu')"):
        net.run(arrays)
    for result, other in zip(values(net.to_device("cpu").run(arrays)), expected, strict=True):
        np.testing.assert_array_equal(result, other)


@pytest.mark.spec("C-1", "I-3")
def test_operands_of_a_net_on_a_device_are_compared_and_recorded() -> None:
    """Values inside fused kernels are included."""
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
def test_constants_and_random_numbers_on_a_device(device: str) -> None:
    """Random numbers equal those on the CPU."""

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
def test_an_array_given_with_a_tensor_is_copied_to_its_device() -> None:
    net = ex.Net("sum")
    net.output(net.Add([net.input("x", (3,)), net.input("y", (3,))], "z"))
    x, y = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    total = net.build(ex.tensor(x, device=accelerator), y)
    assert total.device is accelerator
    np.testing.assert_array_equal(ex.evaluate(total), x + y)
    np.testing.assert_array_equal(net.run(x, ex.tensor(y, device=accelerator)), x + y)
