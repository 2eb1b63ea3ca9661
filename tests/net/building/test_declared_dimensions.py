"""Names of dimensions: only the names that a file declares for a value."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import explorer as ex
from explorer.core.ir import dimension_declarations
from explorer.record import from_json, to_json
from explorer.record.compare.comparison import compare
from explorer.view.export.dot import to_graphviz
from explorer.view.export.text import text
from explorer.view.export.why_text import why
from explorer.view.model.picture_model import build_model
from explorer.view.payload.recording_tables import recording_tables
from tests.formats.onnx.models import FLOAT, model, node, opened
from tests.support.cells import MODELS


def labelled(recording: ex.Recording) -> dict[str, str]:
    """Return the types of the recorded nodes by their names."""
    nodes = recording.nodes
    return {nodes.label[n]: recording.named_type_text(n) for n in range(len(nodes)) if nodes.born[n] < 0}


def net_of(tmp_path: Path) -> ex.Net:
    """Return a net with two named lengths, which a hidden value declares in another order, and others do not
    declare."""
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        node("Relu", ["t"], ["r"]),
        node("Tanh", ["r"], ["h"]),
        node("Add", ["h", "other"], ["y"]),
    ]
    proto = model(nodes, {"x": (FLOAT, ["batch", "seq", 64]), "other": (FLOAT, [None, None, 64])}, ["y"])
    proto.graph.value_info.append(helper.make_tensor_value_info("t", FLOAT, ["seq", "batch", 64]))
    # a name that no input binds, one that contradicts the input's, and torch's number and expression
    proto.graph.value_info.append(helper.make_tensor_value_info("r", FLOAT, ["frames", "seq", 64]))
    proto.graph.value_info.append(helper.make_tensor_value_info("h", FLOAT, ["s77", "(s53 - 1)//2", 64]))
    return opened(proto, tmp_path)


@pytest.mark.spec("I-2", "V-7")
def test_a_dimension_has_the_name_in_the_file_independent_of_its_length(tmp_path: Path) -> None:
    net = net_of(tmp_path)
    recording = net.plan((2, 16, 64), (16, 2, 64)).recording
    assert labelled(recording) == {
        "x": "batch=2×seq=16×64 float32",
        "other": "16×2×64 float32",  # two unnamed unknown lengths, which need not be those of x
        "transpose": "seq=16×batch=2×64 float32",
        "relu": "frames=16×2×64 float32",  # the second is 2, and seq is 16
        "tanh": "16×2×64 float32",
        "add": "16×2×64 float32",
    }
    declared = {recording.nodes.label[n]: (row.shape, row.origin) for n, row in recording.dimensions.items()}
    assert declared["other"] == ("?×?×64", "input 'other' of m.onnx")
    assert declared["transpose"] == ("seq×batch×64", "operand 't' of m.onnx")
    # unknown lengths of an inner operand, which no name in the file determines
    assert "tanh" not in declared
    assert "add" not in declared


@pytest.mark.parametrize(
    "name",
    ["DynamicDimension.0", "Transposeenh_dim_0", "Reshape_470_o0__d2", "unk__29", "x_dynamic_axes_1", "gen_dim_3"],
)
def test_a_length_that_a_tool_numbered_has_no_name(tmp_path: Path, name: str) -> None:
    net = opened(model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, [name, "batch_dim"])}, ["y"]), tmp_path)
    recording = net.plan((2, 3)).recording
    assert labelled(recording) == {"x": "2×batch_dim=3 float32", "relu": "2×3 float32"}
    assert net.preview_plan().title == "m (batch_dim = 16, unknown length = 1)"


@pytest.mark.spec("V-7")
def test_equal_lengths_do_not_share_a_name(tmp_path: Path) -> None:
    """If batch, seq and an unnamed length are all 4, each keeps its declared name."""
    types = labelled(net_of(tmp_path).plan((4, 4, 64), (4, 4, 64)).recording)
    assert types["x"] == "batch=4×seq=4×64 float32"
    assert types["transpose"] == "seq=4×batch=4×64 float32"
    assert types["other"] == types["add"] == "4×4×64 float32"


@pytest.mark.spec("V-7", "V-16")
def test_names_are_shown_with_every_shape(tmp_path: Path) -> None:
    """Nodes, text, DOT and the panel's tables have the names; edges in pictures use the nodes' labels."""
    recording = net_of(tmp_path).preview_plan().recording
    x = recording.nodes.label.index("x")
    drawn = build_model(recording)
    slot = drawn.slots.of[x]
    assert drawn.texts[drawn.slot_texts[slot][0]][1] == "batch=1×seq=16×64 f32"
    assert "batch=1×seq=16×64 float32" in to_graphviz(recording).source
    tables = recording_tables(recording)
    row = tables["types"][tables["nodes"].type[x]]
    assert (row["shape"], row["named"], row["text"]) == ((1, 16, 64), "batch=1×seq=16×64", " float32")
    assert tables["declared"][x] == "batch×seq×64: input 'x' of m.onnx"
    other = tables["types"][tables["nodes"].type[recording.nodes.label.index("other")]]
    assert "named" not in other
    assert recording.title in text(recording)


@pytest.mark.spec("V-7")
def test_the_replacement_of_a_value_has_its_dimension_names(tmp_path: Path) -> None:
    """The plan itself does not know the names."""
    nodes = [node("Relu", ["x"], ["a"]), node("Relu", ["a"], ["y"])]
    proto = model(nodes, {"x": (FLOAT, ["batch", 3])}, ["y"])
    plain = opened(proto, tmp_path, "plain.onnx").plan((2, 3)).recording
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, ["batch", 3]))
    named = opened(proto, tmp_path, "named.onnx").plan((2, 3)).recording
    assert named.fingerprint == plain.fingerprint
    (asked,) = named.bodies[0].outputs
    final = named.resolver(named.end)[asked]
    assert named.named_type_text(final) == "batch=2×3 float32"
    assert plain.named_type_text(plain.resolver(plain.end)[plain.bodies[0].outputs[0]]) == "2×3 float32"


@pytest.mark.spec("V-12")
def test_files_with_and_without_names_are_the_same_program(tmp_path: Path) -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, ["batch", 3])}, ["y"])
    other = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, [1, 3])}, ["y"])
    named, plain = opened(proto, tmp_path, "a.onnx"), opened(other, tmp_path, "b.onnx")
    assert compare(named.preview_plan().recording, plain.preview_plan().recording).equal


def test_names_are_stored_in_files_and_checked(tmp_path: Path) -> None:
    recording = net_of(tmp_path).preview_plan().recording
    plain = to_json(recording)
    assert from_json(plain).dimensions == recording.dimensions
    x = next(node for node, row in plain["dimensions"].items() if row["names"][0] == "batch")
    plain["dimensions"][x]["names"] = ["batch"]
    with pytest.raises(ValueError, match=r"expected 3 names .* found 1"):
        from_json(plain)


def test_names_belong_to_their_expressions(tmp_path: Path) -> None:
    net = net_of(tmp_path)
    y = net.build(np.zeros((2, 16, 64), "float32"), np.zeros((16, 2, 64), "float32"))
    assert len(dimension_declarations._declared) >= 4
    known = set(dimension_declarations._declared)
    before = {node.uid for node in [y]}
    assert before.isdisjoint(known)
    del net, y
    gc.collect()
    assert len(dimension_declarations._declared) < len(known)


@pytest.mark.spec("V-7")
def test_the_history_of_a_node_shows_where_its_names_are_declared(tmp_path: Path) -> None:
    recording = net_of(tmp_path).preview_plan().recording
    text = why(recording, recording.nodes.label.index("x"))
    assert "x · batch=1×seq=16×64 float32\n" in text
    assert "declared as batch×seq×64: input 'x' of m.onnx\n" in text


@pytest.mark.spec("V-16")
def test_values_that_a_quantizer_inserted_have_the_names_of_the_values_that_they_hold() -> None:
    """Quantizers declare no types for their values, so that one edge would read ``batch=1×8`` and the next ``1×8``."""
    recording = ex.open(MODELS.parent / "digits_int8.onnx").preview_plan().recording
    scopes, nodes = recording.scopes, recording.nodes
    results = {
        operator.outputs[0]: operator.results[0][1]
        for operator in recording.operators
        if scopes[operator.scope].type in ("QuantizeLinear", "DequantizeLinear") and operator.results[0][1] >= 0
    }
    images = {name: node for name, node in results.items() if recording.types[nodes.type[node]].shape[:1] == (1,)}
    assert len(images) > 20
    assert {recording.dimension_names(node)[0] for node in images.values()} == {"batch"}
    last = recording.dimensions[images["probability_QuantizeLinear_Output"]]
    assert last.origin == "output 'probability' of digits_int8.onnx"  # the file declares only what it holds in the end
    first = recording.dimensions[images["image_DequantizeLinear_Output"]]
    assert (first.shape, first.origin) == ("batch×1×8×8", "input 'image' of digits_int8.onnx")
