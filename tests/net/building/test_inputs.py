"""Inputs of nets: numbers that a dtype accepts, and explicitly given shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

import explorer as ex
from explorer.cli.main import main
from explorer.net.building.inputs import as_array
from explorer.net.definition.definition import BlobDefinition
from tests.formats.onnx.models import FLOAT, INT64, model, node, opened


def input_of(dtype: str, value: Any) -> Any:
    """Return an input of this dtype."""
    return as_array(BlobDefinition("x", None, dtype, None, (), "x"), value)


@pytest.mark.spec("I-9")
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int64", [1.5, 2]), ("int64", [1.0]), ("int8", [300]), ("uint8", [-1]), ("bool", [1, 0]), ("bool", ["a"]),
        ("int4", [8]), ("uint2", [4]), ("float32", [1e300]), ("float16", [70000]), ("float32", [1j]),
        ("float32", [None]), ("float8_e4m3fn", [500]), ("float4_e2m1fn", [7]), ("float32", ["1"]), ("int64", [2**70]),
        ("float32", np.array(["1"])), ("float32", np.array(["2000-01-01"], "M8[D]")),
    ],
)  # fmt: skip
def test_numbers_that_a_dtype_cannot_represent_raise_an_error(dtype: str, value: Any) -> None:
    """Lists are converted exactly, without loss of fraction, sign or size, or raise an error with the input's name."""
    with pytest.raises(ex.OperandError, match=r"input 'x' (is|has) ") as raised:
        input_of(dtype, value)
    assert dtype in raised.value.rule


@pytest.mark.parametrize(
    ("dtype", "value", "result"),
    [
        ("float32", [1, 2], np.array([1, 2], np.float32)),
        ("float32", [True, 0.1], np.array([1, 0.1], np.float32)),
        ("float16", [np.inf, np.nan], np.array([np.inf, np.nan], np.float16)),
        ("int8", [-128, 127], np.array([-128, 127], np.int8)),
        ("int4", [-8, 7], np.array([-8, 7], ml_dtypes.int4)),
        ("bool", [True], np.array([True])),
        ("complex64", [1, 2j], np.array([1, 2j], np.complex64)),
        ("int64", [], np.zeros(0, np.int64)),
        ("float32", 3, np.array(3, np.float32)),
    ],
)
def test_numbers_without_a_dtype_get_the_dtype_in_the_file(dtype: str, value: Any, result: Any) -> None:
    np.testing.assert_array_equal(input_of(dtype, value), result, strict=True)


def test_samples_in_a_list_keep_their_dtype(tmp_path: Path) -> None:
    """A list of arrays is stacked, and raises the same error as one array of another dtype."""
    net = opened(model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, ["n", 2])}, ["y"]), tmp_path)
    sample = np.array([1, -1], np.float32)
    assert net.run([sample, sample]).tolist() == [[1, 0], [1, 0]]
    with pytest.raises(ex.OperandError, match="float64"):
        net.run([sample.astype(np.float64)])


@pytest.mark.parametrize("code", ["INT4", "FLOAT8E4M3FN", "INT64", "BOOL", "FLOAT16"])
def test_arrays_of_another_dtype_than_declared_raise_an_error(code: str, tmp_path: Path) -> None:
    """Narrower dtypes are included: nothing is converted silently."""
    proto = model([node("Identity", ["x"], ["y"])], {"x": (getattr(TensorProto, code), [1])}, ["y"], opset=23)
    with pytest.raises(ex.OperandError, match="input 'x' of net 'm' is float32"):
        opened(proto, tmp_path).run(np.ones(1, np.float32))


def test_lengths_written_as_a_question_mark_are_independent(tmp_path: Path) -> None:
    """Paddle's exporter writes "?" for each unknown length."""
    proto = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, ["?", "?"])}, ["y"])
    net = opened(proto, tmp_path)
    assert net.inputs["x"].shape == (None, None)
    assert net.run(np.ones((2, 3), np.float32)).shape == (2, 3)


def two(folder: Path) -> ex.Net:
    """Return a net with tokens and mask of one length, to which a third input adds 100 numbers."""
    nodes = [node("Add", ["tokens", "mask"], ["a"], "add"), node("Concat", ["a", "more"], ["y"], "join", axis=1)]
    inputs = {"tokens": (INT64, [1, "seq"]), "mask": (INT64, [1, "seq"]), "more": (INT64, [1, "rest"])}
    return opened(model(nodes, inputs, ["y"]), folder)


@pytest.mark.spec("V-22")
def test_shapes_of_inputs_can_be_assumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`net.assume(tokens=(1, 576))` and `explorer check FILE --shape tokens=1x576` use the shape to inspect a net."""
    net = two(tmp_path).assume(tokens=(1, 576))
    shapes = net.example_shapes()
    assert (shapes["tokens"], shapes["mask"]) == ((1, 576), (1, 576))
    assert net.nodes("join")[0].shape == (1, 576 + shapes["more"][1])
    assert "seq = 576" in net.preview_plan().recording.title
    assert net.assume().example_shapes()["tokens"] != (1, 576)
    path = str(tmp_path / "m.onnx")
    arguments = ["--shape", "tokens=1x576", "--shape", "more=1×4"]
    assert main(["check", path, *arguments]) == 0
    capsys.readouterr()
    assert main(["show", path, "-o", "-", *arguments]) == 0
    assert "m (seq = 576, rest = 4)" in capsys.readouterr().out
    assert main(["why", path, "join", *arguments]) == 0
    assert "1×580" in capsys.readouterr().out


def test_mismatching_shapes_raise_an_error_with_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Test another rank or length, different lengths of one name, an unknown input, and no shape."""
    net = two(tmp_path)
    for shapes, said in (
        ({"tokens": (2, 5)}, "'tokens'"),
        ({"tokens": (1,)}, "'tokens'"),
        ({"tokens": (1, 5), "mask": (1, 6)}, "seq"),
        ({"tokens": (1, -5)}, "'tokens'"),
        ({"tokens": "1x5"}, "'tokens'"),
    ):
        with pytest.raises(ex.OperandError, match=said):
            net.assume(shapes)  # type: ignore[arg-type]  # one of them is a text
    with pytest.raises(ex.UnknownNameError, match="tokens"):
        net.assume(token=(1, 5))
    assert net.example_shapes()["tokens"][1] == net.example_shapes()["mask"][1]
    with pytest.raises(SystemExit):
        main(["check", str(tmp_path / "m.onnx"), "--shape", "tokens=1xa"])
    assert "'tokens=1xa' is not an input shape, such as tokens=1x576" in capsys.readouterr().err


def test_a_reason_is_reported_once_with_its_count(tmp_path: Path) -> None:
    """Operators of one type with one reason are one problem; others are separate."""
    nodes = [node("Softmax", ["x"], [f"y{number}"], f"s{number}", axis=7) for number in range(9)]
    nodes.append(node("Softmax", ["x"], ["z"], "other", axis=8))
    net = opened(model(nodes, {"x": (FLOAT, [2, 2])}, [f"y{number}" for number in range(9)]), tmp_path)
    first, second = net.check()
    assert "operator 's0'" in first
    assert "the same for 8 more: 's1' (line 2), 's2' (line 3), 's3' (line 4), 's4' (line 5), 's5' (line 6), …" in first
    assert "operator 'other'" in second
    assert "same" not in second


def test_consequences_of_a_wrong_declared_type_are_not_reported(tmp_path: Path) -> None:
    """Only the first operand that differs from its declared type is reported."""
    lines = [
        "pnnx.Input in 0 1 x #x=(2,3)f32",
        "nn.ReLU a 1 1 x y #y=(2,4)f32",
        "nn.ReLU b 1 1 y z",
        "nn.ReLU c 1 1 z v #v=(2,4)f32",
        "nn.ReLU d 1 1 x w #w=(9,9)f32",
        "pnnx.Output out 2 0 v w",
    ]
    path = tmp_path / "x.param"
    path.write_text("\n".join(["7767517", "6 5", *lines]) + "\n")
    assert [finding.split(":")[0] for finding in ex.open(path).check()] == [
        "operand 'y' of operator 'a' (line 4)", "operand 'w' of operator 'd' (line 7)",
    ]  # fmt: skip
