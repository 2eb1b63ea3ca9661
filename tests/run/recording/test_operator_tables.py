"""Tables of a model file's operators, with attributes and weights under the file's names."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.record import loads, to_json

MODELS = Path(__file__).parents[3] / "assets" / "models"


def rows(name: str) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """Return attributes and weights of each operator, by the name of its box."""
    recording = ex.open(MODELS / name).preview_plan().recording
    return {recording.scopes[row.scope].name: (dict(row.attributes), dict(row.weights)) for row in recording.operators}


@pytest.mark.spec("I-5")
def test_the_attributes_of_an_onnx_operator_have_the_names_of_the_file() -> None:
    """The box of the operator has its attributes and weights."""
    attributes, weights = rows("resnet18.onnx")["node_Conv_296"]
    assert attributes["strides"] == "(2, 2)"
    assert attributes["pads"] == "(3, 3, 3, 3)"
    assert list(weights) == ["W", "B"]
    assert weights["W"].endswith("64×3×7×7 float32")


def test_the_attributes_of_a_pnnx_operator_have_the_names_of_the_file() -> None:
    attributes, weights = rows("resnet18.pnnx.param")["convbn2d_0"]
    assert attributes["kernel_size"] == "(7, 7)"
    assert attributes["padding_mode"] == "zeros"
    assert weights == {"weight": "convbn2d_0.weight · 64×3×7×7 float32", "bias": "convbn2d_0.bias · 64 float32"}


@pytest.mark.spec("I-5")
@pytest.mark.parametrize(
    ("file", "box", "parameters", "results"),
    [
        ("resnet18.onnx", "node_Conv_296", [("X", 0), ("W", -1), ("B", -1)], ["Y"]),
        ("resnet18.onnx", "node_Reshape_", [("data", 0), ("shape", -1)], ["reshaped"]),
        ("lstm.onnx", "node_LSTM_", [("X", 0), ("W", 1), ("R", 2), ("B", -1)], ["Y"]),
        ("resnet18.pnnx.param", "maxpool", [("input", 0)], [""]),
        ("resnet18.pnnx.param", "convbn2d_0", [("input", 0), ("weight", -1), ("bias", -1)], [""]),
    ],
)
def test_operands_have_the_names_of_the_operator_type(
    file: str, box: str, parameters: list[tuple[str, int]], results: list[str]
) -> None:
    """Inputs are in the type's order, with weights and constants; each output has its node."""
    recording = ex.open(MODELS / file).preview_plan().recording
    row = next(row for row in recording.operators if recording.scopes[row.scope].name.startswith(box))
    assert list(row.parameters[: len(parameters)]) == parameters
    assert [name for name, _ in row.results] == results
    apart = {name for name, _ in (*row.weights, *row.attributes)}
    assert all(name in apart for name, index in row.parameters if index < 0)
    assert [recording.nodes.scope[node] for _, node in row.results] == [row.scope]


def test_the_tables_are_kept_in_a_file_and_omitted_if_empty() -> None:
    recording = ex.open(MODELS / "resnet18.onnx").preview_plan().recording
    assert loads(json.dumps(to_json(recording))).operators == recording.operators
    plan = ex.EvalPlan()
    plan.register(ex.tanh(ex.tensor(np.ones(3))))
    assert "operators" not in to_json(plan.prepare().recording)


def test_a_row_of_a_missing_box_raises_an_error() -> None:
    plain = to_json(ex.open(MODELS / "resnet18.onnx").preview_plan().recording)
    plain["operators"][0]["scope"] = 999
    with pytest.raises(ValueError, match=r"operators\.scope.*999 is no row of scopes"):
        loads(json.dumps(plain))


@pytest.mark.parametrize(
    ("field", "pair", "message"), [("parameters", ["X", 7], "7 is no row of inputs"), ("results", ["Y", 9999], "nodes")]
)
def test_an_operand_of_a_missing_row_raises_an_error(field: str, pair: list[object], message: str) -> None:
    plain = to_json(ex.open(MODELS / "resnet18.onnx").preview_plan().recording)
    plain["operators"][0][field] = [pair]
    with pytest.raises(ValueError, match=rf"operators\.{field}.*{message}"):
        loads(json.dumps(plain))


def test_the_location_in_an_onnx_file_is_a_node_number() -> None:
    """An ONNX file has no lines."""
    recording = ex.open(MODELS / "resnet18.onnx").preview_plan().recording
    assert recording.sources[0].location == "resnet18.onnx node 1"
    assert (
        ex.open(MODELS / "resnet18.pnnx.param")
        .preview_plan()
        .recording.sources[0]
        .location.startswith("resnet18.pnnx.param line ")
    )
