"""Weights of a net: their boxes in its graph, replacement, and sharing."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.net import Net
from tests.formats.onnx.models import FLOAT, model, node, opened

DIGITS = Path(__file__).parents[3] / "assets" / "digits.pnnx.param"


@pytest.mark.spec("I-15", "V-7")
def test_a_weight_is_in_the_box_of_its_operator() -> None:
    """This includes a weight that was read or replaced before the net was built."""
    net, other = ex.open(DIGITS), ex.open(DIGITS)
    other["fc1"].weight = np.array(other["fc1"].weight.array)
    assert other["conv2"].bias.scope is None

    def boxes(net: Net) -> dict[str, str]:
        recording = net.plan((1, 1, 8, 8)).recording
        nodes, scopes = recording.nodes, recording.scopes
        leaves = [n for n in range(len(nodes)) if nodes.kind[n] == "leaf"]
        return {nodes.label[n]: scopes[nodes.scope[n]].name for n in leaves}

    assert boxes(other) == boxes(net)
    assert boxes(net)["fc1.weight"] == "fc1"


@pytest.mark.spec("I-15")
def test_a_replaced_weight_is_copied() -> None:
    """Writing to the assigned array does not change the net, and vice versa."""
    net = ex.open(DIGITS)
    given = np.array(net["fc1"].weight.array)
    net["fc1"].weight = given
    given[:] = 0
    assert net["fc1"].weight.array.any()
    assert not net["fc1"].weight.array.flags.writeable


@pytest.mark.spec("I-15")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda held: held.T.copy(),
        lambda held: held.reshape(-1),
        lambda held: held.astype(np.float64),
        lambda held: held.astype(np.int32),
        lambda held: held[None],
        lambda held: held.reshape(-1).tolist()[1:],
    ],
)
def test_a_weight_of_another_shape_or_dtype_raises_an_error(wrong: Callable[[Any], Any]) -> None:
    """An equal number of elements is not enough; the weight is unchanged."""
    net = ex.open(DIGITS)
    before = np.array(net["fc1"].weight.array)
    with pytest.raises(ex.OperandError, match=r"must be float32 \(24, 192\), as the net declares"):
        net["fc1"].weight = wrong(before)
    np.testing.assert_array_equal(net["fc1"].weight.array, before)


@pytest.mark.spec("I-15")
def test_operators_that_share_a_weight_read_it_once(tmp_path: Path) -> None:
    """The weight has one storage; replaced for one operator, the other one keeps it."""
    nodes = [node("Add", ["x", "w"], ["y"], "add"), node("Mul", ["y", "w"], ["z"], "mul")]
    w = np.arange(3, dtype=np.float32)
    net = opened(model(nodes, {"x": (FLOAT, [3])}, ["z"], {"w": w}), tmp_path)
    first, second = net["add"].B, net["mul"].B
    assert first.storage is second.storage
    net["add"].B = np.zeros(3, np.float32)
    np.testing.assert_array_equal(net.run(w), w * w)


@pytest.mark.spec("I-15")
def test_a_net_without_its_weights_file_runs_only_after_all_were_replaced(tmp_path: Path) -> None:
    (tmp_path / "n.param").write_text(DIGITS.read_text())
    net, whole = ex.open(tmp_path / "n.param"), ex.open(DIGITS)
    names = [(name, attribute) for name, operator in whole.operators.items() for attribute in operator.weights]
    image = np.zeros((1, 1, 8, 8), np.float32)
    for name, attribute in names:
        with pytest.raises(ex.FileError, match=r"n\.bin: the file is missing"):
            net.init()
        net[name].weights[attribute] = whole[name].weights[attribute]
    np.testing.assert_array_equal(net.run(image), whole.run(image))


def test_weights_are_listed_and_found_by_key() -> None:
    """`net.weights` shows each weight with its type and its key in the file; `net[key]` is its operator."""
    net = ex.open(DIGITS.with_name("digits.onnx"))
    lines = repr(net.weights).splitlines()
    operator = next(operator for operator in net.definition.operators if operator.weights)
    attribute, reference = next(iter(operator.weights.items()))
    assert lines[0] == f"<{len(lines) - 1} weights>"
    assert re.fullmatch(
        rf"  {re.escape(operator.name)}\.{attribute} +float32 \(.*\) +{re.escape(reference.key)}", lines[1]
    )
    with pytest.raises(ex.UnknownNameError, match=re.escape(f"fix: net[{operator.name!r}].{attribute} is the weight")):
        net[reference.key]
    with pytest.raises(ex.UnknownNameError, match=r"fix: net\.operators has all operators by name"):
        net["nothing of this name"]
    assert list(net) == list(net.operators)
    assert repr(ex.Net("empty").weights) == "<0 weights>"
