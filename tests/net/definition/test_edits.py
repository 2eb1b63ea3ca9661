"""Edits of nets: operators are added, removed, replaced, inserted and renamed; readers are rewired; unused parts are
pruned."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.core.errors import FileError, OperandError, UnknownNameError
from explorer.net import Net, NetState

ASSETS = Path(__file__).parents[3] / "assets"
images = np.load(ASSETS / "digits.npz")["images"]


def digits() -> Net:
    return ex.open(ASSETS / "digits.pnnx.param")


def saved(net: Net, folder: Path) -> Net:
    net.save(folder / "edited.pnnx.param")
    return ex.open(folder / "edited.pnnx.param")


@pytest.mark.spec("I-13", "I-2")
def test_an_operator_is_replaced_and_the_net_is_built_again(tmp_path: Path) -> None:
    """The name and blobs are kept, and the old definition does not change."""
    net = digits()
    before, plain = net.definition, net.run(images)
    net.replace("relu1", "nn.Sigmoid")
    assert net.state is NetState.NEED_BUILD
    changed = net.run(images)
    assert net.state is NetState.COMPLETE
    assert not np.array_equal(changed, plain)
    assert before.operator("relu1").type == "nn.ReLU"
    assert (net["relu1"].type, net["relu1"].outputs) == ("nn.Sigmoid", ("2",))
    np.testing.assert_array_equal(saved(net, tmp_path).run(images), changed)


@pytest.mark.spec("I-13", headline=True)
def test_an_operator_is_inserted_between_a_blob_and_its_readers(tmp_path: Path) -> None:
    """Edit a net, for example insert an operator between a blob and its readers, and save it; the file gives equal
    results.
    """
    net = digits()
    pooled = net.cut(outputs=["5"]).run(images)
    assert net.insert("nn.Tanh", "5", readers=["convbn2d_1"], name="squash") == "squash"
    assert (net["convbn2d_1"].inputs, net["pnnx_expr_0"].inputs) == (("squash",), ("8", "5"))
    assert net["convbn2d_1"].input_names == {"input": "squash"}
    np.testing.assert_allclose(net.cut(outputs=["squash"]).run(images), np.tanh(pooled), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(saved(net, tmp_path).run(images), net.run(images))
    everywhere = digits()
    everywhere.insert("nn.Tanh", "5", output="5t")
    assert everywhere["pnnx_expr_0"].inputs == ("8", "5t")
    assert everywhere.operands["5"].consumers == ("tanh",)
    last = digits()
    assert list((last.insert("nn.Identity", "15"), last.outputs)[1]) == ["identity"]


@pytest.mark.spec("I-13")
def test_removing_an_operator_needs_a_replacement_for_its_readers(tmp_path: Path) -> None:
    """Without it, an operator whose result is read cannot be removed."""
    net = digits()
    with pytest.raises(FileError, match=r"'softmax' is removed, but an output of the net reads '15'(.|\n)*'15': '14'"):
        net.remove("softmax")
    with pytest.raises(UnknownNameError, match="output of operator 'softmax' '16'"):
        net.remove("softmax", instead={"16": "14"})
    assert "softmax" in net
    net.remove("softmax", instead={"15": "14"})
    assert list(net.outputs) == ["14"]
    np.testing.assert_array_equal(saved(net, tmp_path).run(images), digits().cut(outputs=["14"]).run(images))


@pytest.mark.spec("I-13")
def test_readers_are_rewired_and_unused_operators_are_pruned(tmp_path: Path) -> None:
    """`prune` removes everything that no output needs, including weights."""
    net = digits()
    net.rewire("9", "5")
    removed = net.prune()
    assert {"pnnx_expr_0", "convbn2d_1"} <= set(removed)
    again = saved(net, tmp_path)
    assert [o.name for o in again.definition.operators] == [o.name for o in net.definition.operators]
    np.testing.assert_array_equal(again.run(images), net.run(images))
    with pytest.raises(UnknownNameError, match="reader of '5' 'softmax'"):
        net.rewire("5", "2", readers=["softmax"])


@pytest.mark.spec("I-13", "I-15")
def test_names_change_and_weights_follow(tmp_path: Path) -> None:
    """A renamed operator keeps its weights, including replaced ones; a renamed blob is renamed everywhere."""
    net = digits()
    plain = net.run(images)
    net["fc2"].bias = np.arange(10, dtype=np.float32)
    net.rename("fc2", "head")
    net.rename_blob("5", "pooled")
    np.testing.assert_array_equal(net["head"].bias.array, np.arange(10))
    assert net["convbn2d_1"].input_names == {"input": "pooled"}
    assert net.operands["pooled"].shape == (None, 12, 4, 4)
    again = saved(net, tmp_path)
    np.testing.assert_array_equal(again["head"].bias.array, np.arange(10))
    np.testing.assert_array_equal(again.run(images), net.run(images))
    del net["head"].bias
    np.testing.assert_array_equal(net.run(images), plain)
    with pytest.raises(OperandError, match="'pooled' renamed to '6', which exists already"):
        net.rename_blob("pooled", "6")
    with pytest.raises(FileError, match="'head' is used twice"):
        net.rename("fc1", "head")


@pytest.mark.spec("I-13", "I-15")
def test_an_added_operator_with_weights_is_saved(tmp_path: Path) -> None:
    """Arrays in an edit become weights like the file's: read, replaced and saved."""
    net = digits()
    weight = np.eye(10, dtype=np.float32)[::-1].copy()
    arguments = {"bias": False, "in_features": 10, "out_features": 10}
    net.add("nn.Linear", "15", "reversed", weights={"weight": weight}, **arguments)
    net.set_outputs(["reversed"])
    again = saved(net, tmp_path)
    np.testing.assert_array_equal(again.run(images), digits().run(images)[:, ::-1])
    again["linear"].weight = np.eye(10, dtype=np.float32)
    np.testing.assert_array_equal(again.run(images), digits().run(images))
    with pytest.raises(OperandError, match="declares"):
        again["linear"].weight = np.eye(9, dtype=np.float32)


@pytest.mark.spec("I-13")
def test_unedited_lines_are_saved_byte_for_byte(tmp_path: Path) -> None:
    """An edit changes only the lines of the operators concerned."""
    net = digits()
    net.replace("relu1", "nn.Sigmoid")
    net.save(tmp_path / "e.pnnx.param")
    old = (ASSETS / "digits.pnnx.param").read_text().split("\n")
    new = (tmp_path / "e.pnnx.param").read_text().split("\n")
    differing = [(a.split()[:2], b.split()[:2]) for a, b in zip(old, new, strict=True) if a != b]
    assert differing == [(["nn.ReLU", "relu1"], ["nn.Sigmoid", "relu1"])]


@pytest.mark.spec("I-13")
@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (lambda n: n.add("nn.Relu", "15"), UnknownNameError, r"unknown operator type of pnnx 'nn\.Relu'\n.*nn\.ReLU"),
        (lambda n: n.add("nn.ReLU", "99"), FileError, r"reads '99', which nothing produces"),
        (lambda n: n.add("nn.ReLU", "15", "5"), FileError, r"produces '5', which is already produced by .*'pool'"),
        (lambda n: n.add("nn.ReLU", "15", "5", before="x", after="y"), OperandError, r"only one of before and after"),
        (lambda n: n.insert("nn.ReLU", "99"), UnknownNameError, r"unknown blob '99'"),
        (lambda n: n.replace("relu9", "nn.ReLU"), UnknownNameError, r"unknown operator 'relu9'\n.*relu1"),
        (lambda n: n.rewire("2", "15"), FileError, r"operators wait for one another"),
        (lambda n: n.set_outputs(["q"]), FileError, r"nothing produces the net's output 'q'"),
        (lambda n: n.set_inputs(["q"]), UnknownNameError, r"input of the net 'q'(.|\n)*net\.input\('q', shape\)"),
        (lambda n: n.input("0", (1,)), FileError, r"'0' is an input twice"),
    ],
)  # fmt: skip
def test_an_invalid_edit_raises_an_error_and_changes_nothing(
    wrong: Callable[[Net], object], error: type[Exception], said: str
) -> None:
    """Every edit is checked as a whole, and the net stays built."""
    net = digits()
    net.build((1, 1, 8, 8))
    before = net.definition
    with pytest.raises(error, match=said):
        wrong(net)
    assert net.definition is before
    assert net.state is NetState.COMPLETE


def test_an_operator_is_added_after_another() -> None:
    net = ex.Net("n")
    net.input("x", (2,))
    net.Relu("x", "x", name="first")
    net.Add(["x", "x"], "y", name="last")
    net.output("y")
    net.Tanh("x", "x", before="first")
    net.Sigmoid("x", "x", after="first")
    assert [o.name for o in net.definition.operators] == ["tanh", "first", "sigmoid", "last"]
    x = np.array([-1.0, 2.0], np.float32)
    np.testing.assert_allclose(net.run(x), 2 / (1 + np.exp(-np.maximum(np.tanh(x), 0))), rtol=1e-6)


@pytest.mark.spec("I-13", "C-9")
def test_in_place_operators_are_removed_and_inserted() -> None:
    """Readers of the removed in-place result read the previous version; an insertion may name the version."""
    net = ex.Net("n")
    net.input("x", (2,))
    net.Relu("x", "x", name="a")
    net.Tanh("x", "x", name="b")
    net.Mul(["x", "x"], "y", name="c")
    net.output("y")
    x = np.array([-1.0, 2.0], np.float32)
    assert net.insert("Sigmoid", "x@1") == "sigmoid"
    assert [(o.name, o.inputs, o.outputs) for o in net.definition.operators] == [
        ("a", ("x",), ("x",)),
        ("sigmoid", ("x",), ("sigmoid",)),
        ("b", ("sigmoid",), ("x",)),
        ("c", ("x", "x"), ("y",)),
    ]
    np.testing.assert_allclose(net.run(x), np.tanh(1 / (1 + np.exp(-np.maximum(x, 0)))) ** 2, rtol=1e-6)
    net.remove("sigmoid", instead={"sigmoid": "x"})
    net.remove("b")
    np.testing.assert_array_equal(net.run(x), np.maximum(x, 0) ** 2)
    net.rename_blob("x", "z")
    assert net.definition.versions("z")[-1].name == "z@1"
    np.testing.assert_array_equal(net.run(z=x), np.maximum(x, 0) ** 2)


def test_inputs_are_removed_and_reordered() -> None:
    net = ex.Net("n")
    for name in "abc":
        net.input(name, (1,))
    net.output(net.Sub(["a", "b"], "d"))
    net.set_inputs(["b", "a"])
    assert net.run([1], [3]).tolist() == [2]
    net.input("e", dtype="int64")
    assert net.inputs["e"].dtype == "int64"
    with pytest.raises(OperandError, match="reads 'a', which nothing produces"):
        net.set_inputs(["b"])


def test_a_cut_net_keeps_its_weights_when_the_original_is_edited() -> None:
    net = digits()
    part = net.cut(outputs=["14"])
    expected = part.run(images)
    net.remove("softmax", instead={"15": "14"})
    net.rename("fc2", "head")
    np.testing.assert_array_equal(part.run(images), expected)
    np.testing.assert_array_equal(part["fc2"].weight.array, net["head"].weight.array)


@pytest.mark.spec("I-13")
@given(st.integers(1, 12), st.integers(0, 2**32))
def test_inserting_and_removing_operators_restores_the_definition(size: int, seed: int) -> None:
    """Inserted operators that change nothing keep every value."""
    chance = random.Random(seed)
    net, known = ex.Net("n"), ["x"]
    net.input("x", (3,))
    for _ in range(size):
        kind = chance.choice(["Relu", "Tanh", "Add"])
        reads = [chance.choice(known) for _ in range(1 + (kind == "Add"))]
        known.append(net.add(kind, reads, chance.choice([None, *known])))
    net.output(*dict.fromkeys(known))
    before = net.definition
    x = np.array([1.0, -2.0, 0.5], np.float32)
    result = net.run(x)
    versions = [blob.name for blob in before.blobs.values()]
    for blob in (chance.choice(versions) for _ in range(3)):
        output = net.insert("Copy", blob, name="inserted")
        again = net.run(x)
        for old, new in zip(
            result.values() if isinstance(result, dict) else [result],
            again.values() if isinstance(again, dict) else [again],
            strict=True,
        ):
            np.testing.assert_array_equal(old, new)
        net.rewire(output, blob)
        net.remove("inserted")
        assert net.definition == before


def two_ends() -> Net:
    """Return a net one of whose outputs is also read by an operator."""
    net = ex.Net("n")
    net.input("x", (2,))
    net.Relu("x", "y", name="first")
    net.Tanh("y", "z", name="second")
    net.output("y", "z")
    return net


@pytest.mark.spec("I-13")
def test_edits_for_named_readers_keep_the_outputs_of_the_net() -> None:
    """Inserting before one reader, or rewiring one reader, does not change the outputs."""
    x = np.array([-1.0, 2.0], np.float32)
    net = two_ends()
    net.insert("Sigmoid", "y", readers=["second"])
    assert list(net.outputs) == ["y", "z"]
    result = net.run(x)
    np.testing.assert_array_equal(result["y"], np.maximum(x, 0))
    np.testing.assert_allclose(result["z"], np.tanh(1 / (1 + np.exp(-np.maximum(x, 0)))), rtol=1e-6)
    net = two_ends()
    net.rewire("y", "x", readers=["second"])
    assert list(net.outputs) == ["y", "z"]
    np.testing.assert_allclose(net.run(x)["z"], np.tanh(x), rtol=1e-6)
    net = two_ends()
    net.rewire("y", "x", readers=[])
    assert net.definition == two_ends().definition
    net.rewire("y", "x")
    assert list(net.outputs) == ["x", "z"]


@pytest.mark.spec("I-13", "C-9")
def test_a_named_version_is_rewired_and_renamed() -> None:
    """A reader that names a version is rewired with it, and renamed with its blob."""
    net = ex.Net("n")
    net.input("x", (2,))
    net.Relu("x@0", "y", name="before")
    net.Tanh("x", "x", name="over")
    net.Mul(["x@1", "y"], "z", name="after")
    net.output("z")
    net.rename_blob("x", "u")
    operators = {operator.name: operator.inputs for operator in net.definition.operators}
    assert operators == {"before": ("u@0",), "over": ("u",), "after": ("u@1", "y")}
    net.input("w", (2,))
    net.rewire("u@0", "w")
    operators = {operator.name: operator.inputs for operator in net.definition.operators}
    assert operators == {"before": ("w",), "over": ("w",), "after": ("u@1", "y")}


@pytest.mark.spec("I-13", "I-15")
def test_a_replacement_operator_has_its_own_weights() -> None:
    """Weights assigned to the old operator are ignored."""
    net = digits()
    net["fc2"].weight = np.zeros((10, 24), np.float32)
    weight = np.arange(240, dtype=np.float32).reshape(10, 24)
    net.replace("fc2", "nn.Linear", weights={"weight": weight}, bias=False, in_features=24, out_features=10)
    np.testing.assert_array_equal(net["fc2"].weight.array, weight)
    assert [*net["fc2"].weights] == ["weight"]


@pytest.mark.spec("I-13")
def test_new_operators_of_an_onnx_net_read_their_inputs_by_name(tmp_path: Path) -> None:
    """Added, inserted and replaced operators run, also with lists of operands, and the saved file gives equal
    results."""
    net = ex.open(ASSETS / "digits.onnx")
    before = net.cut(outputs=["/fc2/Gemm_output_0", "/conv1/Conv_output_0"]).run(images)
    net.add("Concat", ["/fc2/Gemm_output_0"] * 2, "both", axis=1)
    net.output(net.add("Add", ["both", "both"], "twice"))
    scores = before["/fc2/Gemm_output_0"]
    np.testing.assert_allclose(net.run(images)["twice"], 2 * np.hstack([scores, scores]), rtol=1e-4)
    net.insert("Tanh", "/relu1/Relu_output_0", name="squash")
    net.replace("/relu2/Relu", "Sigmoid")
    assert net["concat"].input_names == dict.fromkeys(("inputs.0", "inputs.1"), "/fc2/Gemm_output_0")
    squashed = net.cut(outputs=["squash"]).run(images)
    np.testing.assert_allclose(squashed, np.tanh(np.maximum(before["/conv1/Conv_output_0"], 0)), rtol=1e-6)
    net.save(tmp_path / "edited.onnx")
    result = ex.open(tmp_path / "edited.onnx").run(images)
    for name, value in net.run(images).items():
        np.testing.assert_array_equal(result[name], value)


def test_rename_finds_operators_and_blobs() -> None:
    """`net.rename` renames the operator with a name, or else the blob, with its readers and outputs."""
    net = ex.Net("n")
    net.input("x", (2,))
    net.Relu("x", "mask", name="relu")
    net.output("mask")
    net.rename("mask", "segmentation")
    net.rename("relu", "last")
    assert net.definition.outputs == ("segmentation",)
    assert [*net.operators] == ["last"]
    np.testing.assert_array_equal(net.run(np.float32([-1, 2])), [0, 2])
    net.rename("last", "relu")
    net.rename("segmentation", "mask")
    with pytest.raises(UnknownNameError, match="unknown operator 'nothing'"):
        net.rename("nothing", "other")
    with pytest.raises(UnknownNameError, match=r"'relu' is an operator: net\.rename\('relu', 'first'\)"):
        net.rename_blob("relu", "first")
    with pytest.raises(UnknownNameError, match=r"computed by the operator 'relu': net\.operands\['mask'\]"):
        net["mask"]
