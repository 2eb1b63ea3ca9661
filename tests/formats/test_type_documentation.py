"""Documentation of operator types in recordings: their operator set, version, summary, page and default attributes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import explorer as ex
from assets.tflite_models import Graph, Node, Tensor, Writer
from explorer.formats.common.type_documentation import summary
from explorer.formats.onnx.operators import TABLE
from explorer.formats.onnx.type_documentation import documented_type
from explorer.record import FileOperator, OperatorType, Recording, from_json, to_json
from explorer.view.export.html_page import html
from tests.formats.onnx.models import FLOAT, model, node, opened

ASSETS = Path(__file__).parents[2] / "assets"


def documented(recording: Recording, row: int = 0) -> tuple[OperatorType, FileOperator]:
    """Return the type of an operator, and the operator."""
    operator = recording.operators[row]
    return recording.operator_types[operator.documentation], operator


@pytest.mark.spec("Q-12", headline=True)
def test_an_operator_has_the_documentation_of_the_opset_that_its_file_imports(tmp_path: Path) -> None:
    """An operator's type, opset and defaults come from the file's version of the standard, with a page for the rest."""
    axis = {}
    for opset in (12, 13):
        softmax = model([node("Softmax", ["x"], ["y"])], {"x": (FLOAT, [2, 3])}, ["y"], opset=opset)
        type, operator = documented(opened(softmax, tmp_path).explore().recording)
        assert type.name == "Softmax"
        assert type.origin == f"ONNX, opset {opset} (unchanged since opset {11 if opset == 12 else 13})"
        assert type.url == "https://onnx.ai/onnx/operators/onnx__Softmax.html"
        assert type.summary.startswith("The operator computes the ")
        (attribute,) = type.attributes
        axis[opset] = attribute.default
        assert "axis" in attribute.name
        # the reader passes the default of an older opset to the builder of the newest one
        assert dict(operator.attributes).get("axis") == ("1" if opset == 12 else None)
        assert operator.implied == (("axis", "flattens") if opset == 12 else ())
    assert axis == {12: "1", 13: "-1"}


def test_an_operator_of_an_upgraded_file_states_both_opsets_and_keeps_its_metadata(tmp_path: Path) -> None:
    pad = node("Pad", ["x"], ["y"], pads=[0, 1, 0, 1])
    old = model([pad], {"x": (FLOAT, [2, 3])}, ["y"], opset=9)
    for part in (old, old.graph, old.graph.node[0], old.graph.input[0], old.graph.output[0]):
        part.metadata_props.add(key="key", value=f"of {part.DESCRIPTOR.name}")
    recording = opened(old, tmp_path).explore().recording
    type, operator = documented(recording)
    assert type.origin == "ONNX, opset 13 (unchanged since opset 13; upgraded from opset 9)"
    assert operator.stated == (("key", "of NodeProto"), ("y: key", "of ValueInfoProto"))
    assert (
        dict(recording.metadata).items()
        >= {
            "opsets": "ONNX 9",
            "key": "of ModelProto",
            "graph: key": "of GraphProto",
            "input x: key": "of ValueInfoProto",
            "output y: key": "of ValueInfoProto",
        }.items()
    )


def test_operators_of_a_type_share_one_row(tmp_path: Path) -> None:
    chain = [node("Relu", [f"x{i}"], [f"x{i + 1}"]) for i in range(5)]
    recording = opened(model(chain, {"x0": (FLOAT, [2])}, ["x5"]), tmp_path).explore().recording
    assert [type.name for type in recording.operator_types] == ["Relu"]
    assert [operator.documentation for operator in recording.operators] == [0] * 5
    assert from_json(to_json(recording)).operator_types == recording.operator_types
    meaning = recording.operator_types[0].inputs[0].meaning
    assert meaning == "Input tensor"
    for text in (json.dumps(to_json(recording)), html(recording)):
        assert text.count(f'"{meaning}"') == 1


def test_an_attribute_of_the_file_is_not_implied(tmp_path: Path) -> None:
    elu = model([node("Elu", ["x"], ["y"], alpha=0.1)], {"x": (FLOAT, [2])}, ["y"])
    type, operator = documented(opened(elu, tmp_path).explore().recording)
    assert [name for name, _ in operator.attributes] == ["alpha"]
    assert operator.implied == ()
    assert [(each.name, each.default) for each in type.attributes] == [("alpha", "1.0")]


def test_defaults_are_as_short_as_in_the_standard() -> None:
    def defaults(name: str) -> dict[str, str]:
        return {each.name: each.default for each in documented_type("", name, {"": 18}, TABLE).attributes}

    assert defaults("BatchNormalization") == {"epsilon": "1e-05", "momentum": "0.9", "training_mode": "0"}
    assert defaults("LeakyRelu") == {"alpha": "0.01"}
    assert defaults("Conv")["auto_pad"] == "NOTSET"
    assert defaults("Conv")["strides"] == ""


def test_the_whole_documentation_of_the_version_is_recorded() -> None:
    """Inputs, outputs and attributes have their types and meanings, in the version that the file uses."""
    conv = documented_type("", "Conv", {"": 11}, TABLE)
    assert [(each.name, each.type, each.option) for each in conv.inputs] == [
        ("X", "T", ""), ("W", "T", ""), ("B", "T", "optional"),
    ]  # fmt: skip
    assert conv.inputs[2].meaning == "Optional 1D bias to be added to the convolution, has size of M."
    assert [(each.name, each.type) for each in conv.outputs] == [("Y", "T")]
    assert conv.constraints[0][:2] == ("T", "tensor(double, float, float16)")
    assert {each.name: each.type for each in conv.attributes}["kernel_shape"] == "ints"
    assert conv.description == ""  # its only sentence is the summary
    pool = {each.name: each for each in documented_type("", "MaxPool", {"": 12}, TABLE).attributes}
    assert pool["kernel_shape"].required
    assert not pool["strides"].required
    ranges = documented_type("", "Range", {"": 11}, TABLE)
    assert [each.name for each in ranges.inputs] == ["start", "limit", "delta"]
    assert "```" in ranges.description
    old, new = [documented_type("", "BatchNormalization", {"": opset}, TABLE) for opset in (9, 15)]
    assert [each.name for each in old.outputs] == ["Y", "mean", "var", "saved_mean", "saved_var"]
    assert [each.name for each in new.outputs] == ["Y", "running_mean", "running_var"]
    assert documented_type("", "Concat", {"": 13}, TABLE).inputs[0].option == "variadic"


def test_a_recording_without_the_documentation_of_operands_is_read() -> None:
    recording = ex.open(ASSETS / "digits.onnx").explore().recording
    plain = to_json(recording)
    for type in plain["operator_types"]:
        for name in ("description", "inputs", "outputs", "constraints"):
            del type[name]
        for attribute in type["attributes"]:
            del attribute["type"], attribute["required"]
    old = from_json(plain).operator_types
    assert [type.name for type in old] == [type.name for type in recording.operator_types]
    assert not any(type.inputs or type.description for type in old)


def test_other_domains_are_documented_by_their_builders(tmp_path: Path) -> None:
    microsoft = documented_type("com.microsoft", "FusedMatMul", {"com.microsoft": 1}, TABLE)
    assert microsoft.origin == "com.microsoft, opset 1"
    assert microsoft.summary == "Return alpha · A · B."
    assert microsoft.url.endswith("ContribOperators.md#com.microsoft.FusedMatMul")
    scaler = documented_type("ai.onnx.ml", "Scaler", {"ai.onnx.ml": 3}, TABLE)
    assert scaler.url == "https://onnx.ai/onnx/operators/onnx_aionnxml_Scaler.html"
    unknown = documented_type("<b>x", 'y"', {}, TABLE)
    assert unknown == OperatorType('y"', "<b>x (the file declares no opset)")

    @ex.file_operator("documented.Twice", format="onnx")
    def twice(x: ex.Expr) -> ex.Expr:
        """Return 2 · x. Further sentences describe the implementation, which is not the summary of a type."""
        return x * 2

    made = model([helper.make_node("Twice", ["x"], ["y"], domain="documented")], {"x": (FLOAT, [2])}, ["y"])
    made.opset_import.append(helper.make_opsetid("documented", 3))
    type, _ = documented(opened(made, tmp_path).explore().recording)
    assert (type.origin, type.url) == ("documented, opset 3", "")
    assert type.summary.startswith("Return 2 · x.")


@pytest.mark.parametrize("opset", [-1, 0, 2**40])
def test_any_opset_can_be_declared(opset: int) -> None:
    type = documented_type("", "Relu", {"": opset}, TABLE)
    assert type.name == "Relu"
    assert type.origin.startswith("ONNX")


def test_operators_of_tflite_and_pnnx_are_documented(tmp_path: Path) -> None:
    graph = Graph({"x": Tensor((2,)), "y": Tensor((2,))}, [Node("GELU", ["x"], ["y"])], ["x"], ["y"], "g")
    (tmp_path / "m.tflite").write_bytes(Writer().file([graph]))
    type, _ = documented(ex.open(tmp_path / "m.tflite").explore().recording)
    assert type.origin == "TensorFlow Lite, version 1"
    assert type.summary.startswith("Return x · Φ(x)")
    assert type.url.endswith("#tflgelu_tflgeluop")
    recording = ex.open(ASSETS / "digits.pnnx.param").explore().recording
    types = {type.name: type for type in recording.operator_types}
    assert types["nn.ReLU"].summary.startswith("max(x, 0)")
    assert types["nn.ReLU"].url == "https://docs.pytorch.org/docs/stable/generated/torch.nn.ReLU.html"
    assert types["nn.ReLU"].origin.startswith("PNNX")
    assert types["nn.ReLU"].description.endswith("The gradient at 0 is 0.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Adds `A` and **B**.<br> More.", "Adds A and B. More."),
        ("See [the paper](https://x.org) for all of the details that matter.\n\nMore.",
         "See the paper for all of the details that matter."),
        ("Uses a rule, e.g. The rule of thumb, which many people know and like. More.",
         "Uses a rule, e.g. The rule of thumb, which many people know and like."),
        ("Computes windows of all the given lengths in order. max pooling is meant.",
         "Computes windows of all the given lengths in order."),
        ("Computes this:\n```\ncode\n```", "Computes this:"),
        ("word " * 100, "word " * 60 + "…"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_summary_is_the_first_sentence_without_markup(text: str, expected: str) -> None:
    assert summary(text) == expected


def test_a_recording_with_an_unknown_row_of_types_is_refused(tmp_path: Path) -> None:
    recording = ex.open(ASSETS / "digits.onnx").explore().recording
    plain = to_json(recording)
    plain["operators"][0]["documentation"] = len(recording.operator_types)
    with pytest.raises(ValueError, match=r"operators\.documentation"):
        from_json(plain)


def test_documentation_is_unrelated_to_equality(tmp_path: Path) -> None:
    """Comparisons of nets ignore it, since files with other opsets may have equal operators."""
    elu = node("Relu", ["x"], ["y"])
    first, second = [
        opened(model([elu], {"x": (FLOAT, [2])}, ["y"], opset=opset), tmp_path, f"{opset}.onnx").definition.operators
        for opset in (13, 14)
    ]
    assert first == second
    assert first[0].documentation != second[0].documentation


def test_values_are_unchanged_by_documentation(tmp_path: Path) -> None:
    net = opened(model([node("Softmax", ["x"], ["y"])], {"x": (FLOAT, [2, 3])}, ["y"], opset=11), tmp_path)
    result = net.run({"x": np.zeros((2, 3), np.float32)})
    np.testing.assert_allclose(result, np.full((2, 3), 1 / 3), rtol=1e-6)
