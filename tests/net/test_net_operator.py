"""Operator objects: neighbours, layer, kinds of arguments, operands' parameters, weights."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.errors import FileError, StateError
from explorer.formats import pnnx
from explorer.net import Net, NetState
from explorer.net.definition.argument_kinds import ArgumentKind, argument_kind

ASSETS = Path(__file__).parents[2] / "assets"
images = np.load(ASSETS / "digits.npz")["images"]


def digits() -> Net:
    return ex.open(ASSETS / "digits.pnnx.param")


def opened(folder: Path, *lines: str) -> Net:
    """Return the net of a file with these operators between the input x and the output y."""
    lines = ("pnnx.Input in 0 1 x #x=(%batch,4,?)f32", *lines, "pnnx.Output out 1 0 y")
    names = {word for line in lines for word in line.split()[4 : 4 + sum(map(int, line.split()[2:4]))]}
    path = folder / "net.param"
    path.write_text("\n".join(["7767517", f"{len(lines)} {len(names)}", *lines]) + "\n")
    return ex.open(path)


@pytest.mark.spec("I-2")
def test_an_operator_has_neighbours_and_a_layer(tmp_path: Path) -> None:
    """They are the operators before and after it by name, and the function that records its computation."""
    net = opened(
        tmp_path,
        "nn.ReLU first 1 1 x a",
        "nn.Sigmoid second 1 1 a b",
        "nn.Tanh third 1 1 a c",
        "pnnx.Expression sum 3 1 a b c y expr=add(add(@0,@1),@2)",
    )
    assert net["first"].predecessors == ()
    assert net["first"].successors == ("second", "third", "sum")
    assert net["sum"].predecessors == ("first", "second", "third")
    assert net["sum"].successors == ()
    assert net["first"].layer is net.table["nn.ReLU"]
    assert opened(tmp_path, "my.Unknown odd 1 1 x y")["odd"].layer is None


@pytest.mark.spec("I-2")
def test_neighbours_are_determined_by_the_versions_that_are_read() -> None:
    net = ex.Net("rewriting")
    net.input("x", (3,))
    net.Relu("x", "x", name="first")
    net.Sigmoid("x", "y", name="reads")
    net.Tanh("x", "x", name="second")
    net.Add(["x", "y"], "z", name="sum")
    net.output("z")
    assert net["first"].successors == ("reads", "second")
    assert net["second"].successors == ("sum",)
    assert net["sum"].predecessors == ("second", "reads")


@pytest.mark.spec("I-2")
def test_an_operand_has_the_parameters_in_its_file(tmp_path: Path) -> None:
    """They are the names of unknown lengths, under PNNX's keys."""
    net = opened(tmp_path, "nn.ReLU relu 1 1 x y")
    assert net.operands["x"].params == {"__shape__0": "batch"}
    assert net.operands["y"].params == {}


@pytest.mark.spec("I-2")
def test_a_graph_is_not_built_twice(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The second build for the same inputs returns the first one and logs that; an edit builds again."""
    net = opened(tmp_path, "nn.ReLU relu 1 1 x y")
    with caplog.at_level("INFO", logger="explorer"):
        first = net.build((1, 4, 2))
        assert "built already" not in caplog.text
        again = net.build((1, 4, 2))
    assert again.operation is first.operation
    assert [record.getMessage() for record in caplog.records if "built" in record.getMessage()] == [
        "net 'net' is built already for these inputs"
    ]


@pytest.mark.spec("I-2")
def test_the_error_of_a_failed_build_contains_net_or_operator(tmp_path: Path) -> None:
    """Test an empty graph, an operator without its operands, and one whose builder fails."""
    with pytest.raises(ex.OperandError, match="'empty' has no operators"):
        ex.Net("empty").build()
    loose = opened(tmp_path, "nn.ReLU loose 0 1 y")
    with pytest.raises(FileError, match="'loose'"):
        loose.build((1, 4, 2))
    failing = opened(tmp_path, "nn.Softmax wrong 1 1 x y dim=7")
    with pytest.raises(FileError, match="'wrong'"):
        failing.build((1, 4, 2))


@pytest.mark.parametrize("value", [(True, False), (1, True), (1, 2.0), (1.0, "a"), ((1,), (2,)), (None,), 1j, (1j,)])
def test_lists_that_pnnx_cannot_express_have_the_kind_others(value: Any) -> None:
    """Lists of booleans, or of booleans and numbers, are none of PNNX's lists."""
    assert argument_kind(value) is ArgumentKind.OTHER


@pytest.mark.spec("I-19", headline=True)
def test_the_kinds_of_arguments_have_pnnxs_numbers(tmp_path: Path) -> None:
    """Return the kind of each argument, from 0 (null) to 8 (other), and write the argument back byte for byte."""
    line = "my.Kinds k 1 1 x y a=None b=True c=3 d=2.5 e=word f=(1,2) g=(1.5,2.0) h=(u,v) i=1.0+2.0j j=(1,2.5) l=()"
    net = opened(tmp_path, line)
    kinds = net["k"].arguments.kinds
    assert [int(kind) for kind in kinds.values()] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 0]
    labels = ["null", "b", "i", "f", "s", "ai", "af", "as", "others", "others", "null"]
    assert [kind.label for kind in kinds.values()] == labels
    assert net["k"].arguments.kind("f") is ArgumentKind.INTEGERS
    with pytest.raises(ex.UnknownNameError, match="argument of operator 'k'"):
        net["k"].arguments.kind("z")
    pnnx.save(net.definition, tmp_path / "again.param")
    again = ex.open(tmp_path / "again.param")
    assert again["k"].arguments.kinds == kinds
    assert again["k"].arguments == net["k"].arguments == net.definition.operator("k").arguments


@pytest.mark.spec("I-18", headline=True)
def test_graph_and_weights_are_opened_from_separate_files(tmp_path: Path) -> None:
    """Open a graph and its weights from separate files; a net's paths can be read, and changed before init."""
    folders = [tmp_path / name for name in ("graphs", "weights")]
    for folder in folders:
        folder.mkdir()
    graph, stored = folders[0] / "net.param", folders[1] / "elsewhere.bin"
    graph.write_bytes((ASSETS / "digits.pnnx.param").read_bytes())
    stored.write_bytes((ASSETS / "digits.pnnx.bin").read_bytes())
    expected = digits().run(images[:2])

    net = ex.open(graph, weights=stored)
    assert (net.source, net.weights_source) == (str(graph), str(stored))
    np.testing.assert_array_equal(net.run(images[:2]), expected)

    net = ex.open(graph)
    assert net.weights_source == str(folders[0] / "net.bin")
    with pytest.raises(FileError, match="missing"):
        net.init()
    net.weights_source = stored
    assert (net.state, net.source) == (NetState.NEED_INIT, str(graph))
    np.testing.assert_array_equal(net.run(images[:2]), expected)
    with pytest.raises(StateError, match="initialized"):
        net.weights_source = stored

    net = ex.open(graph)
    with pytest.raises(FileError, match=r"no\.param"):
        net.source = tmp_path / "no.param"
    net.source = ASSETS / "digits.pnnx.param"
    assert net.weights_source == str(ASSETS / "digits.pnnx.bin")
    np.testing.assert_array_equal(net.run(images[:2]), expected)


@pytest.mark.spec("I-18")
def test_files_of_a_json_net_may_be_in_different_folders(tmp_path: Path) -> None:
    digits_net = digits()
    digits_net.save(tmp_path / "net.pnnx.param")
    net = ex.Net("written")
    net.input("x", (None, 2))
    net.GivenTensorFill([], "w", values=np.eye(2, dtype=np.float32))
    net.MatMul(["x", "w"], "y")
    net.output("y")
    net.save(tmp_path / "net.json")
    os.rename(tmp_path / "net.npz", tmp_path / "other.npz")
    again = ex.open(tmp_path / "net.json", weights=tmp_path / "other.npz")
    assert again.weights_source == str(tmp_path / "other.npz")
    np.testing.assert_array_equal(again.run(np.ones((1, 2), np.float32)), np.ones((1, 2)))
    with pytest.raises(StateError, match="written"):
        net.source = tmp_path / "net.json"
    with pytest.raises(FileError, match="onnx"):
        ex.open(ASSETS / "digits.onnx", weights=tmp_path / "other.npz")


@pytest.mark.spec("I-18")
@pytest.mark.parametrize("arguments", [("a.param", "a.bin"), ("a.onnx",), (Path("a.json"),)])
def test_constructing_a_net_from_files_raises_an_error_with_the_fix(arguments: tuple[object, ...]) -> None:
    """``ex.Net("a.param", "a.bin")`` suggests ``ex.open``."""
    with pytest.raises(ex.OperandError, match=r"ex\.open\('a\."):
        ex.Net(*arguments)


@pytest.mark.spec("I-15")
def test_weights_accept_flat_lists_and_take_reads_and_releases_them() -> None:
    """``take`` also checks the number of elements and the dtype."""
    net = digits()
    size = net["fc2"].weight.shape
    net["fc2"].weights["weight"] = [0.0] * (size[0] * size[1])
    assert net["fc2"].weight.shape == size
    assert net["fc2"].weight.dtype == np.float32
    with pytest.raises(ex.OperandError, match=r"float32 \(3,\) for the weight 'weight'"):
        net["fc2"].weights["weight"] = [1.0, 2.0, 3.0]
    held = net["conv2"].weight
    taken = net["conv2"].weights.take("weight")
    assert not taken.flags.writeable
    assert held.storage._array is None
    np.testing.assert_array_equal(taken, digits()["conv2"].weight.array)
    kept = net["conv2"].weights.take("weight", np.float32, release=False)
    assert held.storage._array is kept
    with pytest.raises(ex.OperandError, match=r"'weight' of operator 'conv2' as float64\n.*float32"):
        net["conv2"].weights.take("weight", np.float64)
    with pytest.raises(ex.UnknownNameError, match="known: bias, weight"):
        net["conv2"].weights.take("kernel")


@pytest.mark.spec("I-15")
def test_taking_an_empty_weight_raises_an_error() -> None:
    net = ex.Net("empty")
    net.GivenTensorFill([], "w", name="fill", values=np.zeros((0, 3), np.float32))
    net.output("w")
    with pytest.raises(ex.OperandError, match=r"'values' of operator 'fill' is empty"):
        net["fill"].weights.take("values")


@pytest.mark.spec("I-3", headline=True)
def test_a_list_of_samples_is_stacked() -> None:
    """Run nets with any number of inputs and outputs by name or order, any batch size, or a list of samples."""
    net = digits()
    np.testing.assert_array_equal(net.run([images[0], images[1]]), net.run(images[:2]))
    part, draw = net.cut(["8", "5"], ["10", "9"]), np.random.default_rng(0)
    for batch in (1, 5):
        first, second = draw.normal(size=(2, batch, 12, 4, 4)).astype(np.float32)
        for result in (part.run(first, second), part.run({"5": second, "8": first})):
            assert list(result) == ["10", "9"]
            np.testing.assert_array_equal(result["9"], first + second)
            np.testing.assert_array_equal(result["10"], np.maximum(first + second, 0))


@pytest.mark.spec("I-17", "I-10")
@pytest.mark.parametrize("executor", ["simple", "dag"])
def test_a_run_logs_each_operator_at_debug_level(executor: str, caplog: pytest.LogCaptureFixture) -> None:
    """Each operator's name, shapes and time are logged; otherwise nothing is."""
    net = digits()
    with caplog.at_level(logging.INFO, "explorer.net"):
        expected = net.run(images[:3], executor=executor)
    assert not [record for record in caplog.records if record.levelno == logging.DEBUG]
    with caplog.at_level(logging.DEBUG, "explorer.net"):
        np.testing.assert_array_equal(net.run(images[:3], executor=executor), expected)
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    for name in ("convbn2d_0", "conv2", "fc1", "fc2"):
        assert [line for line in lines if f"'{name}'" in line.partition(":")[0]], name
    first = next(line for line in lines if "'convbn2d_0'" in line)
    assert "float32 (3, 1, 8, 8)" in first
    assert first.endswith(" µs")
    assert max(float(line.split()[-2]) for line in lines) > 0
