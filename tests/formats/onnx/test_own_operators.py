"""User-defined operator types: inputs are read in one way, wherever they are in the file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import explorer as ex
from explorer.net.operators.context import OperatorContext
from tests.formats.onnx.models import model, node, opened

PICTURE = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def dequantize(op: OperatorContext) -> ex.Expr:
    """Return (x − zero point) · scale, for the whole tensor or along an axis, as a user writes it."""
    x, scale, zero = op.input(0), op.input(1), op.input(2)
    assert x is not None
    assert scale is not None
    if scale.ndim:
        shape = [1] * x.ndim
        shape[op.integer("axis", 1)] = -1
        scale, zero = scale.reshape(shape), zero if zero is None else zero.reshape(shape)
    x = x.astype(np.float32)
    return (x if zero is None else x - zero.astype(np.float32)) * scale


def dequantize_by_signature(x: ex.Expr, scale: ex.Expr, zero: ex.Expr | None = None, *, axis: int = 1) -> ex.Expr:
    """Return the same, with the inputs and the attribute as parameters."""
    shape = [-1 if place == axis else 1 for place in range(x.ndim)] if scale.ndim else []
    difference = x.astype(np.float32) - (0 if zero is None else zero.reshape(shape).astype(np.float32))
    return difference * scale.reshape(shape)


@pytest.mark.spec("I-9")
@pytest.mark.parametrize("function", [dequantize, dequantize_by_signature])
@pytest.mark.parametrize("stored", ["nothing", "all but x", "all"])
@pytest.mark.parametrize("has_zero", [False, True])
@pytest.mark.parametrize("length", [0, 2, 3])
def test_computed_stored_and_omitted_inputs_are_read_in_one_way(
    tmp_path: Path, function: Callable[..., ex.Expr], stored: str, has_zero: bool, length: int
) -> None:
    """Twenty lines of user code implement the standard's DequantizeLinear."""
    ex.file_operator("own.DequantizeLinear", format="onnx")(function)
    axis = {0: 1, 2: 0, 3: 1}[length]
    shape = [length] if length else []
    arrays = {"x": PICTURE, "scale": np.full(shape, 0.5, np.float32)}
    if has_zero:
        arrays["zero"] = np.full(shape, 3, np.uint8)
    free = {"nothing": [*arrays], "all but x": ["x"], "all": []}[stored]
    inputs = {name: (helper.np_dtype_to_tensor_dtype(arrays[name].dtype), arrays[name].shape) for name in free}
    constants = {name: array for name, array in arrays.items() if name not in free}
    results = []
    for domain in ("", "own"):
        written = model(
            [node("DequantizeLinear", [*arrays], ["y"], domain=domain, axis=axis)], inputs, ["y"], constants
        )
        written.opset_import.append(helper.make_opsetid("own", 1))
        net = opened(written, tmp_path, f"{domain}.onnx")
        assert net.check() == []
        results.append(net.run({name: arrays[name] for name in free}))
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[1], (PICTURE - np.float32(3 * has_zero)) * np.float32(0.5))


@pytest.mark.spec("I-9")
def test_an_omitted_input_between_others_is_none(tmp_path: Path) -> None:
    @ex.file_operator("own.Between", format="onnx")
    def between(op: OperatorContext) -> ex.Expr:
        first, last = op.input(0), op.input(2)
        assert op.input(1) is None
        assert op.input(3) is None
        assert first is not None
        assert last is not None
        return first + last

    written = model(
        [node("Between", ["x", "", "more"], ["y"], domain="own")], {"x": (1, [2])}, ["y"], {"more": np.float32(4)}
    )
    written.opset_import.append(helper.make_opsetid("own", 1))
    np.testing.assert_array_equal(opened(written, tmp_path).run(np.ones(2, np.float32)), [5, 5])


@pytest.mark.spec("I-9")
def test_attributes_of_several_types_are_fields_of_a_dataclass(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Line:
        slope: float
        start: float = 0.0

    def line(x: ex.Expr, *, line: Line) -> ex.Expr:
        return line.slope * x + line.start

    line.__annotations__["line"] = Line  # the class is local, and annotations are strings
    ex.file_operator("own.Line", format="onnx")(line)
    written = model([node("Line", ["x"], ["y"], domain="own", slope=3.0)], {"x": (1, [2])}, ["y"])
    written.opset_import.append(helper.make_opsetid("own", 1))
    np.testing.assert_array_equal(opened(written, tmp_path).run(np.ones(2, np.float32)), [3, 3])


@pytest.mark.spec("I-9")
def test_grouped_inputs_are_fields_of_a_dataclass(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Scaled:
        x: ex.Expr
        scale: ex.Expr
        zero: ex.Expr | None = None

    def difference(a: Scaled, b: Scaled, c: ex.Expr) -> ex.Expr:
        assert (a.zero is None) is (b.zero is not None)
        return (a.x * a.scale - b.x * b.scale) / c

    difference.__annotations__.update(a=Scaled, b=Scaled)  # the class is local, and annotations are strings
    ex.file_operator("own.Difference", format="onnx")(difference)
    names = ["x", "two", "", "x", "three", "three", "two"]
    constants = {"two": np.array(2, np.float32), "three": np.array(3, np.float32)}
    written = model([node("Difference", names, ["y"], domain="own")], {"x": (1, [2])}, ["y"], constants)
    written.opset_import.append(helper.make_opsetid("own", 1))
    np.testing.assert_array_equal(opened(written, tmp_path).run(np.ones(2, np.float32)), [-0.5, -0.5])


@pytest.mark.spec("I-9")
def test_a_named_input_is_read_by_name() -> None:
    definition = ex.open(Path(__file__).parents[3] / "assets" / "digits.onnx").definition.operators[0]
    op = OperatorContext(definition, (ex.tensor(PICTURE),), lambda name: ex.tensor(np.zeros(2)))
    name = next(iter(definition.input_names))
    assert op.input(name) is not None
    assert op.input("none") is None
    with pytest.raises(ex.OperandError, match=f"must be read by its name.*\n.*op.input\\('{name}'\\)"):
        op.input(0)


def test_operators_of_other_domains_are_imported_only_for_files_with_them() -> None:
    """Standard operators, and drawing them, import neither scikit-learn's nor ONNX Runtime's operators."""
    program = (
        "import sys, numpy as np, explorer as ex\n"
        "ex.open('assets/digits.onnx').explore()\n"
        "domains = 'machine_learning', 'microsoft'\n"
        "assert not [name for name in sys.modules if any(domain in name for domain in domains)]\n"
        "assert 'com.microsoft.QuickGelu' in ex.layer_types('onnx')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, cwd=Path(__file__).parents[3])


@pytest.mark.spec("I-9")
def test_operators_of_other_domains_are_drawn(tmp_path: Path) -> None:
    """Operators of onnxruntime and of its extensions open with their attributes; `check` lists those without values."""
    nodes = [
        helper.make_node("GPT2Tokenizer", ["text"], ["ids", "mask"], "tokenizer", domain="ai.onnx.contrib", vocab="{}"),
        helper.make_node("NotKnown", ["x"], ["y"], "other", domain="com.microsoft", alpha=0.5),
        helper.make_node("Relu", ["y"], ["z"], "relu"),
    ]
    inputs = {"text": (TensorProto.STRING, [None]), "x": (TensorProto.FLOAT, [1, 4])}
    net = opened(model(nodes, inputs, ["ids", "z"]), tmp_path)
    unknown = [problem.partition(":")[0] for problem in net.check()]
    types = ("ai.onnx.contrib.GPT2Tokenizer", "com.microsoft.NotKnown")
    assert unknown == [f"unknown operator type {type}" for type in types]
    recording = net.explore().recording
    drawn = {scope.type for scope in recording.scopes if scope.type}
    assert {*types} <= drawn
    assert ("alpha", "0.5") in [pair for row in recording.operators for pair in row.attributes]
