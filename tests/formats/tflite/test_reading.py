"""TensorFlow Lite files as definitions: names, constants, scales, signatures, inner graphs, unknown operators."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tflite

import explorer as ex
from assets.tflite_models import SAME, Graph, Node, Tensor, Writer, constant, file
from explorer.cli import main
from explorer.core.ir.traversal import reachable
from explorer.net import Net
from tests.support.tflite_files import composite, two_graphs

ASSETS = Path(__file__).parents[3] / "assets"
rng = np.random.default_rng(3)
FILTERS = rng.normal(size=(4, 3, 3, 2)).astype(np.float32)
NAME = "net/conv/Relu;net/conv/BiasAdd"


def classifier(**options: object) -> bytes:
    """Return a convolution with an activation, a mean over the image, and a linear map."""
    tensors = {
        "serving_default_image:0": Tensor((1, 8, 8, 2), signature=(-1, 8, 8, 2)),
        "filters": constant(FILTERS),
        "bias": constant(np.zeros(4), "float32"),
        NAME: Tensor((1, 8, 8, 4), signature=(-1, 8, 8, 4)),
        "axes": constant([1, 2], "int32"),
        "net/pool/Mean": Tensor((1, 4), signature=(-1, 4)),
        "weights": constant(np.eye(4), "float32"),
        "Identity": Tensor((1, 4), signature=(-1, 4)),
    }
    nodes = [
        Node("CONV_2D", ["serving_default_image:0", "filters", "bias"], [NAME], "Conv2DOptions",
             {"Padding": SAME, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 1}),
        Node("MEAN", [NAME, "axes"], ["net/pool/Mean"]),
        Node("FULLY_CONNECTED", ["net/pool/Mean", "weights", None], ["Identity"], "FullyConnectedOptions"),
    ]  # fmt: skip
    graph = Graph(tensors, nodes, ["serving_default_image:0"], ["Identity"], "main")
    return file(graph, signatures=[("serving_default", 0, {"image": 0}, {"scores": 7})])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "classifier.tflite"
    path.write_bytes(classifier())
    return path


def opened(data: bytes, folder: Path) -> Net:
    path = folder / "m.tflite"
    path.write_bytes(data)
    return ex.open(path)


@pytest.mark.parametrize("stated", ["BuiltinCode", "DeprecatedBuiltinCode"])
@pytest.mark.parametrize("type", ["ADD", "TANH", "DEQUANTIZE", "CUSTOM", "PLACEHOLDER_FOR_GREATER_OP_CODES", "CUMSUM"])
def test_an_operator_code_may_have_only_the_newer_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type: str, stated: str
) -> None:
    """The type is the larger of its two numbers: tools that insert operators write only the newer one."""
    number = getattr(tflite.BuiltinOperator, type)
    if stated == "DeprecatedBuiltinCode" and number > 127:
        number, type = 127, "PLACEHOLDER_FOR_GREATER_OP_CODES"  # the maximum of its byte
    monkeypatch.setattr(Writer, "code", lambda self, *code: self.table("OperatorCode", {stated: number}))
    graph = Graph({"x": Tensor((2,)), "y": Tensor((2,))}, [Node(type, ["x"], ["y"])], ["x"], ["y"])
    assert opened(file(graph), tmp_path)["y"].type.strip() == type


@pytest.mark.spec("I-3")
def test_a_file_opens_as_a_graph(path: Path) -> None:
    """In `ex.open("x.tflite")`, constants are weights; inputs and outputs have the signature's names."""
    net = ex.open(path)
    assert [*net.inputs] == ["image"]
    assert net.inputs["image"].shape == (None, 8, 8, 2)
    assert net.definition.outputs == ("scores",)
    assert [operator.type for operator in net.definition.operators] == ["CONV_2D", "MEAN", "FULLY_CONNECTED"]
    conv = net.definition.operator("net/conv/Relu")
    assert conv.boxes == ("net", "conv")
    assert conv.arguments["fused_activation_function"] == "RELU"
    assert conv.arguments["padding"] == "SAME"
    assert net.definition.operator("net/pool/Mean").arguments["axis"] == (1, 2)
    np.testing.assert_array_equal(net["net/conv/Relu"].filter.array, FILTERS, strict=True)
    assert net.definition.doc == "a test of Explorer"
    signature = ("signature serving_default", "image = serving_default_image:0 → scores = Identity")
    assert net.definition.metadata == (("schema version", "3"), signature)
    assert net.check() == []
    for count in (1, 3):
        assert net.run(np.ones((count, 8, 8, 2), np.float32)).shape == (count, 4)


@pytest.mark.spec("I-13")
def test_added_operators_read_their_inputs_by_name(path: Path) -> None:
    """An operator that is appended or inserted runs like those of the file."""
    net = ex.open(path)
    images = np.random.default_rng(0).random((2, 8, 8, 2), np.float32)
    scores = net.run(images)
    net.output(net.add("ADD", ["scores", "scores"], "twice"))
    np.testing.assert_array_equal(net.run(images)["twice"], 2 * scores)
    net.insert("TANH", "scores")
    np.testing.assert_allclose(net.run(images)["twice"], 2 * np.tanh(scores), rtol=1e-6)
    assert net["add"].input_names == {"x": "tanh", "y": "tanh"}


def test_a_fused_activation_is_a_separate_operation(path: Path) -> None:
    net = ex.open(path)
    scores = net.build(np.ones((1, 8, 8, 2), np.float32))
    inside = [node.operation.name for node in reachable([scores]) if node.scope and node.scope.name == "Relu"]
    assert inside.count("relu") == inside.count("conv2d") == 1


@pytest.mark.parametrize("command", [["show"], ["check"], ["why", "net/conv/Relu"], ["diff"]])
def test_commands_support_these_files(command: list[str], path: Path) -> None:
    """`explorer show`, `why`, `check` and `diff` accept a .tflite file."""
    words = [command[0], str(path), *command[1:], *[str(path)] * (command[0] == "diff")]
    run = [sys.executable, "-m", "explorer", *words]
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=path.parent)
    assert done.returncode == 0, done.stderr
    if command[0] == "show":
        assert "CONV_2D" in (path.parent / "classifier.tflite.explorer.html").read_text(encoding="utf-8")
    if command[0] == "why":
        assert "net / conv / Relu" in done.stdout


def test_two_files_are_compared(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tflite"
    other.write_bytes(path.read_bytes().replace(FILTERS.tobytes(), (FILTERS + 1).tobytes()))
    image = np.ones((1, 8, 8, 2), np.float32)
    assert not np.array_equal(ex.open(path).run(image), ex.open(other).run(image))
    done = subprocess.run(
        [sys.executable, "-m", "explorer", "diff", str(path), str(other)], capture_output=True, text=True, check=False
    )
    assert "filter" in done.stdout


@pytest.mark.parametrize("count", [1, 3, 100])
def test_quantized_weights_keep_scale_and_zero_point(count: int, tmp_path: Path) -> None:
    """They are arguments of the operator, or weights if there are many."""
    scale = tuple((np.arange(count) / 8 + 1).tolist())
    tensors = {
        "x": Tensor((1, 4), "int8", scale=(0.5,), zero_point=(-1,)),
        "w": constant(np.ones((count, 4), np.int8), scale=scale, zero_point=(0,) * count),
        "y": Tensor((1, count), "int8", scale=(0.25,), zero_point=(2,)),
    }
    net = opened(file(Graph(tensors, [Node("FULLY_CONNECTED", ["x", "w", None], ["y"])], ["x"], ["y"])), tmp_path)
    operator = net.definition.operator("y")
    assert operator.arguments["input.scale"] == 0.5
    assert operator.arguments["output.zero_point"] == 2
    assert operator.arguments["output.dtype"] == "int8"
    assert net["y"].weights["weights"].array.dtype == np.int8
    if count > 64:
        np.testing.assert_array_equal(net["y"].weights["weights.scale"].array, np.float32(scale))
        assert operator.weights["weights.zero_point"].dtype == "int64"
    else:
        assert operator.arguments["weights.scale"] == (scale if count > 1 else scale[0])
    assert operator.arguments.get("weights.quantized_dimension") == (0 if count > 1 else None)


def test_unknown_operators_are_drawn_and_listed(tmp_path: Path) -> None:
    """Unknown and custom operators are in the graph with their names, and check() lists them."""
    tensors = {"x": Tensor((2, 3)), "a": Tensor((2, 3)), "y": Tensor((2, 3))}
    nodes = [Node("CUSTOM", ["x"], ["a"], custom="MyOwn"), Node("LOCAL_RESPONSE_NORMALIZATION", ["a"], ["y"])]
    net = opened(file(Graph(tensors, nodes, ["x"], ["y"])), tmp_path)
    assert [unknown.type for unknown in net.unknown()] == ["CUSTOM MyOwn", "LOCAL_RESPONSE_NORMALIZATION"]
    assert len(net.check()) == 2
    assert net.preview_plan().explain()

    @ex.file_operator("CUSTOM MyOwn", format="tflite")
    def own(op: ex.OperatorContext) -> ex.Expr:
        "x + x."
        return op.x + op.x

    try:
        assert [unknown.type for unknown in net.unknown()] == ["LOCAL_RESPONSE_NORMALIZATION"]
    finally:
        from explorer.formats.tflite.operators import TABLE

        TABLE._builders.pop("CUSTOM MyOwn")


def test_state_kept_between_runs_is_drawn(tmp_path: Path) -> None:
    """Variables that keep their value between runs are named, and operators that read them cannot run."""
    tensors = {"x": Tensor((2, 3)), "h": Tensor((2, 3), is_variable=True), "y": Tensor((2, 3))}
    net = opened(file(Graph(tensors, [Node("ADD", ["x", "h"], ["y"])], ["x"], ["y"])), tmp_path)
    assert net.definition.operator("y").arguments["y"] == "a variable of float32 (2, 3)"
    assert "a variable of float32" in net.check()[0]


def test_a_constant_may_be_an_output(tmp_path: Path) -> None:
    tensors = {"c": constant([1.0, 2.0], "float32"), "x": Tensor((2,)), "y": Tensor((2,))}
    net = opened(file(Graph(tensors, [Node("NEG", ["x"], ["y"])], ["x"], ["y", "c"])), tmp_path)
    results = net.run(np.ones(2, np.float32))
    np.testing.assert_array_equal(results["c"], [1, 2])


def test_tensors_with_one_name_are_distinguished(tmp_path: Path) -> None:
    """Names need not be unique in a file; the number of a second tensor is appended to its name."""
    data = file(Graph(
        {"aa": Tensor((2,)), "bb": Tensor((2,)), "cc": Tensor((2,))},
        [Node("NEG", ["aa"], ["bb"]), Node("NEG", ["bb"], ["cc"])], ["aa"], ["cc"],
    ))  # fmt: skip
    net = opened(data.replace(b"bb\0", b"aa\0").replace(b"cc\0", b"aa\0"), tmp_path)
    assert [*net.definition.blobs] == ["aa", "aa:1", "aa:2"]
    np.testing.assert_array_equal(net.run(np.ones(2, np.float32)), [1, 1])


def test_without_the_package_the_error_contains_the_pip_command(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package `tflite` the error has the file, the package, and a conversion."""
    monkeypatch.setattr("explorer.formats.tflite.operator_options.find_spec", lambda name: None)
    with pytest.raises(ex.FileError, match=r"(?s)classifier\.tflite.*package tflite is not installed") as raised:
        ex.open(path)
    assert 'pip install "explorer-graphs[tflite]"' in raised.value.fix
    assert "tf2onnx.convert --tflite" in raised.value.fix


def test_the_package_is_imported_only_for_these_files() -> None:
    code = "import sys, explorer.formats.registry; print('tflite' in sys.modules, 'flatbuffers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_weights_are_read_when_they_are_needed(path: Path) -> None:
    """If the file has changed since it was opened, reading a weight raises an error."""
    net = ex.open(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ex.FileError, match="has changed since it was opened"):
        _ = net["net/conv/Relu"].filter.array


@pytest.mark.spec("I-3")
def test_a_signature_selects_a_graph_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`ex.open(path, signature="decode")` and `--signature decode` open its graph, with the names in the signature."""
    path = two_graphs(tmp_path)
    x = np.array([0.5, -1], np.float32)
    first, second = ex.open(path), ex.open(path, signature="decode")
    assert [operator.type for operator in first.definition.operators] == ["TANH"]
    assert [operator.type for operator in second.definition.operators] == ["TANH", "LOGISTIC"]
    assert (second.name, [*second.inputs], second.definition.outputs) == ("two decode", ["in"], ("out",))
    np.testing.assert_allclose(second.run(x), 1 / (1 + np.exp(-np.tanh(x))), rtol=1e-6)
    assert ex.open(path, signature="prefill").definition.operators == first.definition.operators
    assert ("graphs that are not shown", "0") in second.definition.metadata
    with pytest.raises(ex.FileError, match="no signature 'train'") as error:
        ex.open(path, signature="train")
    assert error.value.rule == "the signature must be one of the file's: 'prefill', 'decode'"
    with pytest.raises(ex.FileError, match="signature='a' for a file in the format 'onnx'"):
        ex.open(ASSETS / "digits.onnx", signature="a")
    assert main(["check", str(path), "--signature", "decode"]) == 0
    assert "two decode: all 2 operators can run" in capsys.readouterr().out


@pytest.mark.spec("I-3")
def test_a_composite_operator_is_computed_by_its_graph(tmp_path: Path) -> None:
    """Its box contains the operators of the graph, and no graph of the file is left out."""
    net = ex.open(composite(tmp_path))
    x = np.array([0.5, -1], np.float32)
    assert net.check() == []
    np.testing.assert_allclose(net.run(x), np.tanh(1 / (1 + np.exp(-np.tanh(x)))), rtol=1e-6)
    assert "graphs that are not shown" not in dict(net.definition.metadata)
    assert [operator.type for operator in net.definition.operator("y").bodies["decomposition"].operators] == [
        "TANH",
        "LOGISTIC",
    ]
