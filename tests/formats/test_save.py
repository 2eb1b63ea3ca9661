"""Nets written to files and read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.formats import save
from explorer.formats.onnx.operators import TABLE as ONNX
from explorer.formats.pnnx.operators import TABLE
from explorer.net import Net, NetDefinition, OperatorDefinition
from explorer.net.definition.definition import WeightReference

ASSETS = Path(__file__).parents[2] / "assets"
images = np.load(ASSETS / "digits.npz")["images"]


@pytest.mark.spec("I-13", "I-15")
@pytest.mark.parametrize("level", ["digits.pnnx.param", "digits_opt1.pnnx.param"])
def test_a_net_is_saved_with_its_current_weights(level: str, tmp_path: Path) -> None:
    """A net that was opened and changed opens again with the changes."""
    net = ex.open(ASSETS / level)
    net["fc2"].bias = np.arange(10, dtype=np.float32)
    save(net, tmp_path / "m.pnnx.param")
    again = ex.open(tmp_path / "m.pnnx.param")
    assert replace(again.definition, name=net.definition.name) == net.definition
    np.testing.assert_array_equal(again["fc2"].bias.array, np.arange(10))
    np.testing.assert_array_equal(again.run(images), net.run(images))
    again["fc2"].bias = np.zeros(10, np.float32)
    save(again, tmp_path / "m.pnnx.param")
    assert not ex.open(tmp_path / "m.pnnx.param")["fc2"].bias.array.any()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.pnnx.bin", "m.pnnx.param"]


@pytest.mark.spec("I-13", "I-14")
def test_an_edited_net_is_saved(tmp_path: Path) -> None:
    """An edited definition and a part of a net are saved and opened."""
    net = ex.open(ASSETS / "digits.pnnx.param")
    d = net.definition
    operators = [
        replace(o, type="nn.Sigmoid") if o.type == "nn.ReLU" else o for o in d.operators if o.name != "softmax"
    ]
    edited = Net(NetDefinition.of("edited", operators, d.inputs, ["14"], weights=d.weights), TABLE)
    for value in (edited, net.cut(["5"], ["10"])):
        save(value, tmp_path / "e.param")
        again = ex.open(tmp_path / "e.param")
        x = images if value is edited else np.ones((2, 12, 4, 4), np.float32)
        np.testing.assert_array_equal(again.run(x), value.run(x))


def test_a_failed_save_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "alone.param").write_bytes((ASSETS / "digits.pnnx.param").read_bytes())
    with pytest.raises(ex.FileError, match="is missing"):
        save(ex.open(tmp_path / "alone.param"), tmp_path / "out.param")
    with pytest.raises(ex.FileError, match=r"extension '\.pb'.*\n.*\n.*out\.pnnx\.param"):
        save(ex.open(ASSETS / "digits.pnnx.param"), tmp_path / "out.pb")
    assert [path.name for path in tmp_path.iterdir()] == ["alone.param"]


@pytest.mark.spec("I-15")
def test_a_shared_weight_is_replaced_for_one_operator(tmp_path: Path) -> None:
    """The new weight is saved under another name, and the other operator keeps the old one."""
    reference = WeightReference("a.B", (2,), "float32")
    operators = [
        OperatorDefinition("Add", "a", ("x",), ("y",), input_names={"A": "x"}, weights={"B": reference}),
        OperatorDefinition("Mul", "b", ("y",), ("z",), input_names={"A": "y"}, weights={"B": reference}),
    ]
    held = {"a.B": np.array([2, 3], np.float32)}
    definition = NetDefinition.of("n", operators, ["x"], ["z"], weights=held, dialect="onnx")
    x = np.array([1, 1], np.float32)
    for changed, expected in (("a", [22, 33]), ("b", [30, 40])):
        net = Net(definition, ONNX)
        net[changed].B = np.array([10, 10], np.float32)
        net.save(tmp_path / "n.json")
        again = ex.open(tmp_path / "n.json")
        np.testing.assert_array_equal(again.run(x), net.run(x))
        np.testing.assert_array_equal(again.run(x), expected)
        assert len({operator.weights["B"].key for operator in again.definition.operators}) == 2
