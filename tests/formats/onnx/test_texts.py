"""Strings: inputs, weights, labels and results of ONNX files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import explorer as ex
from explorer.cli import main
from explorer.core.ir.storage import Storage
from explorer.core.ir.tensor import tensor_of
from tests.formats.onnx.models import FLOAT, model, node, opened

TEXT = TensorProto.STRING
WORDS = ["Cat", "Dog", "elephant"]
EXPECTED = {
    "all": ["cat", "hound", "elephant", "kitty", "doggy", "none"],
    "id": [1, 2, -1],
    "digits": ["1", "2", "-1"],
}


def texts(name: str, *values: str) -> TensorProto:
    return helper.make_tensor(name, TEXT, [len(values)], [value.encode() for value in values])


def pipeline(folder: Path) -> Any:
    """Return a net that changes the case of strings, compares, replaces, encodes and selects them."""
    nodes = [
        node("StringNormalizer", ["t"], ["n"], case_change_action="LOWER"),
        node("Equal", ["n", "dog"], ["is dog"]),
        node("Where", ["is dog", "hound", "n"], ["w"]),
        node("LabelEncoder", ["w"], ["id"], domain="ai.onnx.ml", keys_strings=["cat", "hound"], values_int64s=[1, 2]),
        node("Max", ["id", "zero"], ["row"]),
        node("Gather", ["names", "row"], ["back"]),
        node("Concat", ["w", "back"], ["all"], axis=0),
        node("Cast", ["id"], ["digits"], to=TEXT),
    ]
    proto = model(nodes, {"t": (TEXT, ["n"])}, ["all", "id", "digits"])
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    tables = [texts("dog", "dog"), texts("hound", "hound"), texts("names", "none", "kitty", "doggy")]
    proto.graph.initializer.extend([*tables, helper.make_tensor("zero", TensorProto.INT64, [1], [0])])
    return opened(proto, folder)


def as_lists(results: dict[str, Any]) -> dict[str, list[Any]]:
    return {name: value.tolist() for name, value in results.items()}


@pytest.mark.spec("I-9")
def test_strings_pass_through_a_net(tmp_path: Path) -> None:
    net = pipeline(tmp_path)
    for value in (WORDS, np.array(WORDS), np.array(WORDS, object), np.array(WORDS, np.dtypes.StringDType())):
        assert as_lists(net.run(value)) == EXPECTED
    assert net.run(["Dog"])["all"].tolist() == ["hound", "doggy"]
    recording = net.plan(np.array(WORDS)).recording
    assert "3 text8" in [recording.type_text(number) for number in range(len(recording.nodes))]


@pytest.mark.spec("I-9")
def test_strings_are_printed_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = pipeline(tmp_path)
    np.savez(tmp_path / "in.npz", t=np.array(WORDS))
    command = ["run", net.definition.source, "--input", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz")]
    assert main(command) == 0
    output = capsys.readouterr().out
    assert "all: text8 (6,), 'cat', 'hound', 'elephant', 'kitty', 'doggy', 'none'\n" in output
    with np.load(tmp_path / "out.npz") as results:
        assert results["all"].tolist() == EXPECTED["all"]


@pytest.mark.spec("I-9", "C-12")
@pytest.mark.parametrize("name", ["copy.onnx", "copy.json"])
def test_a_net_with_strings_is_saved_and_opened_again(tmp_path: Path, name: str) -> None:
    net = pipeline(tmp_path)
    net.save(tmp_path / name)
    again = ex.open(tmp_path / name)
    assert as_lists(again.run(WORDS)) == EXPECTED


@pytest.mark.spec("I-5", "I-9")
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "input 't' has int64 elements"),
        ([["a"], ["b", "c"]], "not a rectangular array of strings"),
        (np.array([b"a"]), r"\|S1 elements"),
        (np.array(["a", None], object), "object elements"),
    ],
)
def test_other_values_are_rejected_as_strings(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(ex.OperandError, match=rf"{message}[\s\S]*must be as the file says, strings \(n,\)"):
        pipeline(tmp_path).run(value)


@pytest.mark.spec("I-9")
def test_a_classifier_returns_its_labels(tmp_path: Path) -> None:
    """The result dtype fits the longest label, so that one plan serves all rows."""
    classifier = node(
        "LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", post_transform="SOFTMAX",
        coefficients=[1.0, 0, 0, 1], intercepts=[0.0, 0], classlabels_strings=["cat", "elephant"],
    )  # fmt: skip
    proto = model([classifier], {"x": (FLOAT, ["n", 2])}, ["label", "scores"])
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    net = opened(proto, tmp_path)
    rows = np.array([[2, 1], [1, 2], [3, 0]], np.float32)
    results = net.run(rows)
    assert results["label"].tolist() == ["cat", "elephant", "cat"]
    np.testing.assert_allclose(results["scores"], np.exp(rows) / np.exp(rows).sum(1, keepdims=True), rtol=1e-6)
    assert results["label"].dtype == net.run(rows[:1])["label"].dtype == np.dtype("U8")


@pytest.mark.spec("I-9")
def test_scores_zipped_with_labels_become_an_array(tmp_path: Path) -> None:
    """scikit-learn's exporter writes maps for classifiers; the array has a column for each label instead."""
    proto = model(
        [node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["a", "b"])], {"x": (FLOAT, [3, 2])}, []
    )
    output = proto.graph.output.add(name="y").type.sequence_type.elem_type.map_type
    output.key_type = TEXT
    output.value_type.tensor_type.elem_type = FLOAT
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    net = opened(proto, tmp_path)
    scores = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(net.run(scores), scores)
    assert net.check() == []


@pytest.mark.spec("I-9")
def test_a_string_computed_from_constants_is_known_and_recorded(tmp_path: Path) -> None:
    """Files of scikit-learn's SimpleImputer compute the replacement string."""
    table = {"keys_int64s": [0, 1], "values_strings": ["Rome", "Paris"]}
    nodes = [
        node("LabelEncoder", ["zero"], ["fill"], domain="ai.onnx.ml", **table),
        node("Equal", ["t", "none"], ["missing"]),
        node("Where", ["missing", "fill", "t"], ["y"]),
    ]
    proto = model(nodes, {"t": (TEXT, ["n"])}, ["y"])
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    proto.graph.initializer.extend([texts("none", ""), helper.make_tensor("zero", TensorProto.INT64, [1], [0])])
    net = opened(proto, tmp_path)
    assert net.run(["Berlin", ""]).tolist() == ["Berlin", "Rome"]
    assert "LabelEncoder (delegated)" not in net.plan(["Berlin", ""]).recording.nodes.label


def test_arithmetic_operations_reject_strings() -> None:
    words = tensor_of(Storage(np.array(["a", "bc"])), "words")
    assert ex.evaluate(words[::-1]).tolist() == ["bc", "a"]
    assert ex.evaluate(ex.where(words == words, words, words)).tolist() == ["a", "bc"]
    computing = [lambda: words + words, lambda: ex.exp(words), lambda: ex.sum(words), lambda: words.astype("float32")]
    for compute in computing:
        with pytest.raises(ex.OperandError, match="must be numbers, because strings can only be moved and compared"):
            compute()
    numbers = ex.tensor([1.0, 2.0])
    mixing = [
        lambda: ex.where(numbers > 0, words, numbers), lambda: ex.stack([words, numbers]), lambda: words == numbers,
        lambda: ex.concatenate([words, numbers]), lambda: ex.where(words, numbers, numbers),
        lambda: words == 3, lambda: ex.where(numbers > 0, words, 1),
    ]  # fmt: skip
    for mix in mixing:
        with pytest.raises(ex.OperandError, match="only strings, or only numbers"):
            mix()
    with pytest.raises(ex.OperandError, match="only nets from files have strings"):
        ex.tensor(["a", "bc"])


@pytest.mark.parametrize(("data", "dims"), [([b"\xff"], [1]), ([b"a"], [2]), ([b"a\0"], [1])])
def test_invalid_strings_of_a_damaged_file_raise_an_error(tmp_path: Path, data: list[bytes], dims: list[int]) -> None:
    proto = model([node("Identity", ["w"], ["y"])], {}, ["y"])
    proto.graph.initializer.append(TensorProto(name="w", data_type=TEXT, dims=dims, string_data=data))
    with pytest.raises(ex.FileError, match="'w'"):
        opened(proto, tmp_path)


def test_one_long_string_among_many_is_opened_without_padding(tmp_path: Path) -> None:
    """An array gives each string the longest one's length: 400 GB for a 2 MB file, whose run raises an error."""
    proto = model([node("Identity", ["w"], ["y"], "same")], {}, ["y"])
    data = [b"a" * 1_000_000, *[b""] * 99_999]
    proto.graph.initializer.append(TensorProto(name="w", data_type=TEXT, dims=[100_000], string_data=data))
    net = opened(proto, tmp_path)
    with pytest.raises(ex.ExplorerError, match="GB of memory"):
        net.run()
