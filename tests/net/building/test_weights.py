"""The weights of a net: where they stand in its graph, how they are replaced, and which are one."""

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
def test_a_weight_stands_in_its_operators_box_whoever_touched_it() -> None:
    """A weight that was read or replaced before the net was built is drawn inside its operator, as any other."""
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
def test_a_weight_that_is_replaced_is_an_array_of_the_nets_own() -> None:
    """What is written to an array after it was assigned does not reach the net, nor the other way round."""
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
def test_a_weight_of_another_shape_or_dtype_is_refused(wrong: Callable[[Any], Any]) -> None:
    """As many elements are not enough: an array has the declared shape and dtype; the weight stays as it was."""
    net = ex.open(DIGITS)
    before = np.array(net["fc1"].weight.array)
    with pytest.raises(ex.OperandError, match=r"must be float32 \(24, 192\), as the net declares"):
        net["fc1"].weight = wrong(before)
    np.testing.assert_array_equal(net["fc1"].weight.array, before)


@pytest.mark.spec("I-15")
def test_operators_that_use_one_weight_read_it_once(tmp_path: Path) -> None:
    """A weight of a file that two operators use is one storage; replaced for one operator, the other keeps it."""
    nodes = [node("Add", ["x", "w"], ["y"], "add"), node("Mul", ["y", "w"], ["z"], "mul")]
    w = np.arange(3, dtype=np.float32)
    net = opened(model(nodes, {"x": (FLOAT, [3])}, ["z"], {"w": w}), tmp_path)
    first, second = net["add"].B, net["mul"].B
    assert first.storage is second.storage
    net["add"].B = np.zeros(3, np.float32)
    np.testing.assert_array_equal(net.run(w), w * w)


@pytest.mark.spec("I-15")
def test_weights_of_an_absent_file_are_all_replaced_or_it_is_missed(tmp_path: Path) -> None:
    """A net whose weights are not there does not run until every one of them was given."""
    (tmp_path / "n.param").write_text(DIGITS.read_text())
    net, whole = ex.open(tmp_path / "n.param"), ex.open(DIGITS)
    names = [(name, attribute) for name, operator in whole.operators.items() for attribute in operator.weights]
    image = np.zeros((1, 1, 8, 8), np.float32)
    for name, attribute in names:
        with pytest.raises(ex.FileError, match=r"n\.bin: the file is absent"):
            net.init()
        net[name].weights[attribute] = whole[name].weights[attribute]
    np.testing.assert_array_equal(net.run(image), whole.run(image))


def test_weights_are_shown_as_a_table_and_found_by_their_keys() -> None:
    """`net.weights` shows each weight with its type and its key in the file; `net[key]` says whose weight it is."""
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
