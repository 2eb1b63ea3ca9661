"""What a model file states about itself, in views, pages, texts, recordings and ``explorer check``."""

from __future__ import annotations

import json
from pathlib import Path

import flatbuffers
import numpy as np
import onnx
import pytest
from gguf import GGUFWriter
from onnx import TensorProto, helper
from safetensors.numpy import save_file

import explorer as ex
from assets.tflite_models import Graph, Node, Tensor, Writer
from explorer.cli.main import main
from explorer.view.export.text import text as plain_text

HOSTILE = "<script>alert(1)</script>\x1b[31m"


def onnx_file(folder: Path) -> Path:
    """Write a model with a description of the model, the graph and the node, a producer and metadata."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    node = helper.make_node("Neg", ["x"], ["y"], "invert", doc_string="describes the node")
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], doc_string="describes the graph")
    opsets = [helper.make_opsetid("", 18)]
    model = helper.make_model(
        graph, producer_name="tool", producer_version="1.2", doc_string=HOSTILE, opset_imports=opsets
    )
    helper.set_model_props(model, {"names": "cat\ndog", "long": "z" * 5000})
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def safetensors_file(folder: Path) -> Path:
    """Write a tensor and metadata."""
    save_file({"a.weight": np.zeros(2, np.float32)}, folder / "m.safetensors", {"format": "pt", "title": HOSTILE})
    return folder / "m.safetensors"


def gguf_file(folder: Path) -> Path:
    """Write a tensor and key-values."""
    writer = GGUFWriter(folder / "m.gguf", "llama")
    writer.add_description(HOSTILE)
    writer.add_context_length(4096)
    writer.add_tensor("a.weight", np.zeros(2, np.float32))
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    return folder / "m.gguf"


def described() -> bytes:
    """Return the metadata of TensorFlow Lite's tools: a name, an author, and an input with a file of labels."""
    b = flatbuffers.Builder(256)
    name, author, image, labels = (b.CreateString(text) for text in ("sorter", "the author", "image", "labels.txt"))

    def table(fields: dict[int, int]) -> int:
        b.StartObject(8)
        for number, offset in fields.items():
            b.PrependUOffsetTRelativeSlot(number, offset, 0)
        return int(b.EndObject())

    def vector(item: int) -> int:
        b.StartVector(4, 1, 4)
        b.PrependUOffsetTRelative(item)
        return int(b.EndVector())

    tensor = table({0: image, 6: vector(table({0: labels}))})
    b.Finish(table({0: name, 3: vector(table({2: vector(tensor)})), 4: author}), b"M001")
    return bytes(b.Output())


def tflite_file(folder: Path, metadata: bytes | None = None) -> Path:
    """Write a description and metadata, with two signatures of two graphs."""
    graphs = [
        Graph({"x": Tensor((2,)), "y": Tensor((2,))}, [Node(type, ["x"], ["y"])], ["x"], ["y"], type)
        for type in ("TANH", "NEG")
    ]
    entries = {"min_runtime_version": b"1.14.0\0\0", "TFLITE_METADATA": metadata or described(), "hash": b"\xff" * 300}
    signatures = [(key, number, {"x": 0}, {"y": 1}) for number, key in enumerate(("prefill", "decode"))]
    (folder / "m.tflite").write_bytes(Writer().file(graphs, signatures, entries))
    return folder / "m.tflite"


STATED = {
    onnx_file: [
        ("producer", "tool 1.2"), ("opsets", "ONNX 18"), ("names", "cat\ndog"),
        ("long", "z" * 1000 + "… (5,000 characters)"),
    ],
    safetensors_file: [("format", "pt"), ("title", HOSTILE)],
    gguf_file: [("general.architecture", "llama"), ("general.description", HOSTILE), ("llama.context_length", "4096")],
    tflite_file: [
        ("description", "a test of Explorer"), ("schema version", "3"), ("min_runtime_version", "1.14.0"),
        ("name", "sorter"), ("author", "the author"), ("input image", "files: labels.txt"), ("hash", "300 bytes"),
        ("signature decode, graph 1", "x = x → y = y"), ("graphs that are not shown", "1"),
    ],
}  # fmt: skip


@pytest.mark.spec("Q-1", headline=True)
@pytest.mark.parametrize("write", STATED, ids=lambda write: write.__name__)
def test_a_file_states_its_producer_versions_descriptions_and_metadata(
    write: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a file states about itself is in its page, text and recording, and in `explorer check`.

    These are the producer, versions, descriptions and metadata. They are untrusted, so they are cut off and escaped.
    """
    assert callable(write)
    path = write(tmp_path)
    view = ex.open(path).explore(source=False)
    recording = view.recording
    assert [pair for pair in STATED[write] if pair not in recording.metadata] == []
    for name in ("x.html", "x.txt", "x.json"):
        view.save(tmp_path / name)
    page, text = ((tmp_path / name).read_text() for name in ("x.html", "x.txt"))
    assert json.loads((tmp_path / "x.json").read_text())["metadata"] == [list(pair) for pair in recording.metadata]
    assert main(["check", str(path)]) == 0
    check = capsys.readouterr().out
    for name, value in STATED[write]:
        start = value.splitlines()[0][:40].partition("\x1b")[0]
        assert f"  {name}: {start}" in text
        assert f"  {name}: {start}" in check
        assert start.replace("<", "\\u003c").replace(">", "\\u003e") in page
    assert "\x1b" not in page + text + check
    assert "<script>alert" not in page


@pytest.mark.spec("Q-1")
def test_an_operator_is_described_in_the_panel_and_in_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = onnx_file(tmp_path)
    recording = ex.open(path).explore().recording
    assert recording.metadata[0] == ("description", f"{HOSTILE}\ndescribes the graph")
    assert [row.doc for row in recording.operators] == ["describes the node"]
    assert main(["check", str(path)]) == 0
    assert "  operator 'invert': describes the node\n" in capsys.readouterr().out


def annotated_file(folder: Path) -> Path:
    """Write a model in which every part that can have a description or metadata has both."""
    model = onnx.load(onnx_file(folder))
    (call,) = model.graph.node
    call.op_type, call.domain = "Twice", "mine"
    body = helper.make_node("Neg", ["a"], ["b"], "inner")
    body.metadata_props.add(key="of node", value="first\nsecond" + "z" * 300)
    function = helper.make_function("mine", "Twice", ["a"], ["b"], [body], model.opset_import, doc_string="describes")
    function.metadata_props.add(key="of function", value="f")
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("mine", 1))
    model.graph.node.append(helper.make_node("Add", ["y", "w"], ["z"], "plus"))
    model.graph.output[0].name = "z"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(2, np.float32), "w"))
    model.graph.value_info.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]))
    for part, key in (
        (model.graph, "of graph"),
        (model.graph.input[0], "of input"),
        (model.graph.output[0], "of output"),
        (model.graph.initializer[0], "of weight"),
        (model.graph.node[1], HOSTILE),
    ):
        part.metadata_props.add(key=key, value=HOSTILE)
        part.doc_string = f"describes {key}"
    model.graph.quantization_annotation.add(tensor_name="w").quant_parameter_tensor_names.add(key="SCALE", value="s")
    onnx.save(model, folder / "all.onnx")
    return folder / "all.onnx"


@pytest.mark.spec("Q-1")
def test_every_part_of_an_onnx_file_states_its_metadata(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = annotated_file(tmp_path)
    view = ex.open(path).explore()
    recording = view.recording
    stated = dict(recording.metadata)
    assert stated["opsets"] == "ONNX 18, mine 1"
    assert stated["graph: of graph"] == HOSTILE
    assert stated["input x: description"] == "describes of input"
    assert (stated["input x: of input"], stated["output z: of output"]) == (HOSTILE, HOSTILE)
    assert stated["function mine.Twice"] == "1 node, opsets ONNX 18"
    assert stated["function mine.Twice: description"] == "describes"
    assert stated["function mine.Twice: of function"] == "f"
    inner, plus = recording.operators
    assert inner.stated == (("of node", "first second" + "z" * 188 + "… (312 characters)"),)
    assert plus.doc == f"describes {HOSTILE}"
    assert plus.stated == (
        (HOSTILE, HOSTILE),
        ("z: description", "describes of output"),
        ("z: of output", HOSTILE),
        ("w: description", "describes of weight"),
        ("w: of weight", HOSTILE),
        ("w: SCALE", "s"),
    )
    for name in ("x.html", "x.txt"):
        view.save(tmp_path / name)
    page, text = ((tmp_path / name).read_text() for name in ("x.html", "x.txt"))
    assert "  plus: w: SCALE: s\n" in text
    short = plain_text(recording, short=True)
    assert "  about operators: of node ×1, " in short
    assert main(["check", str(path)]) == 0
    check = capsys.readouterr().out
    assert "  graph: of graph: " in check
    assert "  metadata of operators: of node (1 operator), " in check
    assert "\x1b" not in page + text + check + short
    assert "<script>alert" not in page


@pytest.mark.spec("Q-1")
def test_values_that_are_not_shown_are_counted(tmp_path: Path) -> None:
    model = onnx.load(onnx_file(tmp_path))
    for index in range(500):
        model.metadata_props.add(key=f"key {index}", value="v")
        model.graph.node[0].metadata_props.add(key=f"key {index}", value="v")
    onnx.save(model, tmp_path / "many.onnx")
    net = ex.open(tmp_path / "many.onnx")
    recording = net.explore().recording
    assert (len(recording.metadata), recording.metadata[-1]) == (401, ("…", "106 more values"))
    assert recording.operators[0].stated[19:] == (("key 19", "v"), ("…", "480 more values"))
    assert len(net.definition.metadata) == 505
    assert len(net.definition.operators[0].metadata) == 500


def test_a_written_file_states_nothing_about_parts_of_the_file_that_was_read(tmp_path: Path) -> None:
    ex.open(annotated_file(tmp_path)).save(tmp_path / "written.onnx")
    written = onnx.load(tmp_path / "written.onnx")
    assert [entry.key for entry in written.metadata_props] == ["names", "long"]


@pytest.mark.parametrize("length", [9, 40, 90])
def test_damaged_metadata_does_not_prevent_opening(tmp_path: Path, length: int) -> None:
    net = ex.open(tflite_file(tmp_path, described()[:length]))
    assert ("TFLITE_METADATA", f"{length} bytes, which are damaged") in net.definition.metadata
    assert net.check() == []
