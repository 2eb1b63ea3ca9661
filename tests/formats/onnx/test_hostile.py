"""Damaged or hostile files raise an error with a name, run nothing, and read nothing outside their folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import explorer as ex
from explorer.core.memory_budget import CALLS
from tests.formats.onnx.models import FLOAT, model, node, opened

ASSETS = Path(__file__).parents[3] / "assets"
x = np.arange(3, dtype=np.float32)


def plus(**fields: object) -> ModelProto:
    """Return a model x + w with a given initializer w."""
    proto = model([node("Add", ["x", "w"], ["y"], "add")], {"x": (FLOAT, [3])}, ["y"])
    proto.graph.initializer.append(TensorProto(**{"name": "w", "data_type": FLOAT, "dims": [3], **fields}))
    return proto


def outside(folder: Path, **entries: str) -> ModelProto:
    tensor = plus(data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.graph.initializer[0].external_data.add(key=key, value=value)
    (folder / "w.bin").write_bytes(b"skip" + x.tobytes())
    return tensor


def test_external_weights_are_read_when_they_are_needed(tmp_path: Path) -> None:
    net = opened(outside(tmp_path, location="w.bin", offset="4", length="12"), tmp_path)
    np.testing.assert_array_equal(net.run(x), 2 * x)
    del net["add"].B
    (tmp_path / "w.bin").unlink()
    net = opened(outside(tmp_path, location="w.bin", offset="4"), tmp_path)
    (tmp_path / "w.bin").write_bytes(b"short")
    assert any("needs 12 bytes from 4, but the file has 1 there" in line for line in net.check())
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ex.FileError, match=r"w\.bin: weight 'w' cannot be read: No such file"):
        net.run(x)


@pytest.mark.parametrize(
    "location", ["../w.bin", "/etc/passwd", "", ".", "a/../../w.bin", "link/w.bin", "a\0b", "../models/w.bin"]
)
def test_nothing_outside_the_folder_is_read(tmp_path: Path, location: str) -> None:
    """A location outside the model's folder raises an error, and so does a link to outside."""
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "models").mkdir()  # its name begins with the folder's name
    os.symlink(tmp_path, folder / "link")
    with pytest.raises(ex.FileError, match=r"tensor 'w' is stored in .*\n.*below the model's folder"):
        opened(outside(tmp_path, location=location), folder)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"offset": "-1"}, "with offset=-1"),
        ({"length": "13"}, "length must be 12"),
        ({"offset": "x"}, "with offset=x"),
        ({"length": "99999999999999999999"}, "with length=9"),
    ],
)
def test_invalid_locations_of_weights_raise_an_error(tmp_path: Path, entries: dict[str, str], said: str) -> None:
    with pytest.raises(ex.FileError, match=said):
        opened(outside(tmp_path, location="w.bin", **entries), tmp_path)


@pytest.mark.parametrize("stored", [{"raw_data": x.tobytes()}, {"float_data": x.tolist()}])
def test_segmented_tensors_raise_an_error(tmp_path: Path, stored: dict[str, object]) -> None:
    """The file contains only a part of such a tensor."""
    segment = TensorProto.Segment(begin=0, end=3)
    with pytest.raises(ex.FileError, match=r"tensor 'w' is stored in segments\n.*must be stored in one piece"):
        opened(plus(segment=segment, **stored), tmp_path)


def _twice_produced() -> ModelProto:
    return model([node("Neg", ["x"], ["y"]), node("Abs", ["x"], ["y"])], {"x": (FLOAT, [3])}, ["y"])


def _cycle() -> ModelProto:
    return model([node("Add", ["x", "b"], ["a"], "p"), node("Neg", ["a"], ["b"], "q")], {"x": (FLOAT, [3])}, ["b"])


def _unknown_operand() -> ModelProto:
    return model([node("Neg", ["nothing"], ["y"], "n")], {"x": (FLOAT, [3])}, ["y"])


def _recursion() -> ModelProto:
    body = [node("Self", ["a"], ["b"], domain="own")]
    own = helper.make_function("own", "Self", ["a"], ["b"], body, [helper.make_opsetid("own", 1)])
    proto = model([node("Self", ["x"], ["y"], domain="own")], {"x": (FLOAT, [3])}, ["y"], functions=[own])
    proto.opset_import.append(helper.make_opsetid("own", 1))
    return proto


def _initializer_twice() -> ModelProto:
    tensor = plus(float_data=[1, 2, 3])
    tensor.graph.initializer.append(tensor.graph.initializer[0])
    return tensor


def _initializer_produced() -> ModelProto:
    return model([node("Neg", ["x"], ["w"])], {"x": (FLOAT, [3])}, ["w"], {"w": x})


@pytest.mark.spec("I-9")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_twice_produced, "node 2: operator 'Abs_2' produces 'y', which is already produced by operator 'Neg_1'"),
        (_cycle, "operators wait for one another: 'p'"),
        (_unknown_operand, "operator 'n' reads 'nothing', which nothing produces"),
        (_recursion, "function 'Self' calls itself"),
        (_initializer_twice, "initializer 'w' occurs twice"),
        (_initializer_produced, "'w' is an initializer and the output of a node"),
        (lambda: plus(raw_data=b"12345"), r"tensor 'w' has 5 bytes, but \(3,\) of float32 needs 12"),
        (lambda: plus(float_data=[1, 2]), r"tensor 'w' has 2 numbers, but \(3,\) of float32 needs 3"),
        (lambda: plus(dims=[-3], raw_data=b""), r"tensor 'w' has shape \(-3,\)"),
        (lambda: plus(dims=[1 << 40, 1 << 40], raw_data=b"1234"), "at most 64 axes and, .*at most 2⁶³ − 1 bytes"),
        (
            lambda: plus(data_type=TensorProto.INT8, dims=[1], int32_data=[999]),
            "tensor 'w' of int8 has elements from 999 to 999",
        ),
        (ModelProto, "the file is empty"),
        (lambda: ModelProto(ir_version=8), "the model has no graph"),
        (lambda: model([], {"x": (FLOAT, [3])}, []), "the graph has no nodes and no outputs"),
    ],
)
def test_invalid_models_raise_an_error(tmp_path: Path, make: Callable[[], ModelProto], said: str) -> None:
    """Invalid graphs and tensors raise an error with name and rule when the file is opened."""
    with pytest.raises(ex.FileError, match=said):
        opened(make(), tmp_path)


@pytest.mark.spec("I-9")
def test_other_files_raise_an_error(tmp_path: Path) -> None:
    """Test a truncated file and files of other types."""
    path = tmp_path / "m.onnx"
    whole = (ASSETS / "digits.onnx").read_bytes()
    for data, state in (
        (whole[:-100], f"this ONNX model is cut off or damaged: {len(whole) - 100:,} bytes"),
        (b"7767517\n5 4\n", "this is not an ONNX model: 12 bytes that begin with b'7767517"),
        (bytes(64), "this is not an ONNX model"),
        (b"\xff" * 64, "this is not an ONNX model"),
    ):
        path.write_bytes(data)
        with pytest.raises(ex.FileError, match=rf"m\.onnx: {state}"):
            ex.open(path)
    with pytest.raises(ex.FileError, match="cannot be read: No such file"):
        ex.open(tmp_path / "none.onnx")


def test_exponentially_expanding_functions_raise_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that each call the next twice are rejected once they become too many operators."""
    monkeypatch.setattr(ex.budget, "operators", 1000)
    opsets = [helper.make_opsetid("own", 1), helper.make_opsetid("", 20)]
    functions = [helper.make_function("own", "F0", ["a"], ["b"], [node("Neg", ["a"], ["b"])], opsets)]
    for level in range(1, 20):
        body = [node(f"F{level - 1}", [a], [b], domain="own") for a, b in (("a", "m"), ("m", "b"))]
        functions.append(helper.make_function("own", f"F{level}", ["a"], ["b"], body, opsets))
    whole = model([node("F19", ["x"], ["y"], domain="own")], {"x": (FLOAT, [3])}, ["y"], functions=functions)
    with pytest.raises(ex.FileError, match="expand to 1,572,862 operators or more"):
        opened(whole, tmp_path)
    chain = [node("Neg", [f"n{index}"], [f"n{index + 1}"]) for index in range(1500)]
    flat = opened(model(chain, {"n0": (FLOAT, [3])}, ["n1500"]), tmp_path)
    assert len(flat.definition.operators) == 1500  # operators written explicitly in the file are no expansion


def test_standard_functions_count_as_expanded_operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One limit covers all expanded calls, including ONNX's standard functions, and the error states so."""
    whole = model([node("MeanVarianceNormalization", ["x"], ["y"])], {"x": (FLOAT, [1, 2, 3, 3])}, ["y"])
    assert opened(whole, tmp_path).definition.operators
    monkeypatch.setattr(ex.budget, "operators", 3)
    with pytest.raises(ex.FileError, match="4 operators or more") as raised:
        opened(whole, tmp_path)
    assert "standard" in raised.value.rule
    assert "budget.operators" in raised.value.rule


def calling(*called: str) -> ModelProto:
    """Return a model of functions F0, F1, …, each of which calls the given one."""
    opsets = [helper.make_opsetid("own", 1), helper.make_opsetid("", 20)]
    functions = [
        helper.make_function(
            "own",
            f"F{number}",
            ["a"],
            ["b"],
            [node(name, ["a"], ["b"], domain="own" if name[0] == "F" else "")],
            opsets,
        )
        for number, name in enumerate(called)
    ]
    first = [node(f"F{len(called) - 1}", ["x"], ["y"], domain="own")]
    whole = model(first, {"x": (FLOAT, [3])}, ["y"], functions=functions)
    whole.opset_import.append(helper.make_opsetid("own", 1))
    return whole


@pytest.mark.spec("I-9")
def test_the_nesting_of_functions_is_limited_and_recursion_is_rejected(tmp_path: Path) -> None:
    """The granted number of nested calls is expanded; one more, or a cycle of calls, raises an error."""
    chain = ["Neg", *[f"F{number}" for number in range(CALLS)]]
    np.testing.assert_array_equal(opened(calling(*chain[:CALLS]), tmp_path).run(x), -x)
    with pytest.raises(ex.FileError, match=f"nests calls {CALLS} deep"):
        opened(calling(*chain), tmp_path)
    for ring in (["F0"], ["F1", "F0"], ["F2", "F0", "F1"], ["F1", "F0", "F1"]):
        with pytest.raises(ex.FileError, match="calls itself"):
            opened(calling(*ring), tmp_path)


def test_huge_shapes_raise_an_error_before_computing(tmp_path: Path) -> None:
    """A file may declare any shape; a run that needs too much memory raises an error."""
    proto = model(
        [node("ConstantOfShape", ["s"], ["c"]), node("Add", ["c", "x"], ["y"], "add")],
        {"x": (FLOAT, [1])},
        ["y"],
        {"s": np.array([1 << 30, 1 << 20])},
    )
    net = opened(proto, tmp_path)
    with pytest.raises(ex.ExplorerError):
        net.run(np.ones(1, np.float32))


BIG = np.iinfo(np.int64).max


@pytest.mark.spec("I-9")
@pytest.mark.parametrize(
    ("nodes", "constants", "said"),
    [
        ([node("Range", ["a", "b", "c"], ["y"])], {"a": 0, "b": 2**31, "c": 1}, "Range claims a constant of"),
        ([node("Range", ["a", "b", "c"], ["y"])], {"a": 0, "b": BIG, "c": 1}, "Range claims a constant of"),
        ([node("Range", ["a", "b", "c"], ["y"])], {"a": 0.0, "b": np.nan, "c": 1.0}, "from 0.0 to nan by 1.0"),
        ([node("Split", ["x"], ["y", "z"], num_outputs=0)], {}, "num_outputs=0"),
        ([node("Split", ["x"], ["y", "z"], num_outputs=2**62)], {}, "Split claims 4,611,686,018,427,387,904 steps"),
    ],
)
def test_constants_that_would_exhaust_memory_raise_an_error(
    tmp_path: Path, nodes: list[NodeProto], constants: dict[str, float], said: str
) -> None:
    """Numbers in the file would expand to gigabytes or endless lists; the error has name and rule."""
    fixed = {name: np.asarray(value) for name, value in constants.items()}
    net = opened(model(nodes, {"x": (FLOAT, [3])}, ["y"], fixed), tmp_path)
    assert any(said in line for line in net.check())
    assert net.preview_plan().recording is not None
    with pytest.raises(ex.FileError, match=said):
        net.run(x)


@pytest.mark.parametrize("type", ["MaxPool", "AveragePool", "Conv"])
@pytest.mark.parametrize("shape", [[], [3], [2, 3], [1] * 6])
def test_windows_over_other_than_images_raise_an_error(tmp_path: Path, type: str, shape: list[int]) -> None:
    """Only signals, images and volumes are supported."""
    is_pool = type != "Conv"
    window = {"kernel_shape": [1, 1]} if is_pool else {}
    proto = model([node(type, ["x"] if is_pool else ["x", "x"], ["y"], **window)], {"x": (FLOAT, shape)}, ["y"])
    (finding,) = opened(proto, tmp_path).check()
    assert "signals (N, C, L), images" in finding


@pytest.mark.spec("I-9")
def test_a_convolution_larger_than_memory_is_drawn(tmp_path: Path) -> None:
    """Declared lengths of 2⁴⁰ are drawn and planned without listing their parts."""
    proto = model([node("Conv", ["x", "w"], ["y"], "conv")], {"x": (FLOAT, [1, 1, 2**40, 9])}, ["y"])
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((1, 1, 3, 3), np.float32), "w"))
    schedule = opened(proto, tmp_path).preview_plan().recording.schedule
    assert schedule is not None
    assert schedule.peak > 4 * 7 * (2**40 - 2)


@pytest.mark.parametrize("name", ["W", "R", "B", "initial_h"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (1, 1, 1), (1, 1, 1, 1)])
def test_recurrent_weights_of_other_shapes_raise_an_error(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    """A slice of such a weight would be too short, and broadcast unnoticed."""
    shapes: dict[str, tuple[int, ...]] = {"W": (1, 12, 3), "R": (1, 12, 4), "B": (1, 24), "initial_h": (1, 2, 4)}
    constants = {key: np.ones(lengths, np.float32) for key, lengths in (shapes | {name: shape}).items()}
    recurrent = node("GRU", ["x", "W", "R", "B", "", "initial_h"], ["y"], hidden_size=4)
    net = opened(model([recurrent], {"x": (FLOAT, [5, 2, 3])}, ["y"], constants), tmp_path)
    with pytest.raises(ex.FileError, match=rf"{name} is .*\n.*{name} must have the"):
        net.build()


@pytest.mark.parametrize("diagonal", [BIG, -BIG])
def test_diagonals_outside_the_matrix(tmp_path: Path, diagonal: int) -> None:
    """A diagonal far outside keeps all elements or none."""
    for upper in (0, 1):
        proto = model([node("Trilu", ["x", "k"], ["y"], upper=upper)], {"x": (FLOAT, [2, 3])}, ["y"], {"k": diagonal})
        kept = (diagonal > 0) != bool(upper)
        whole = np.ones((2, 3), np.float32)
        np.testing.assert_array_equal(opened(proto, tmp_path).run(whole), whole * kept)


def test_more_memory_than_the_address_space_raises_an_error(tmp_path: Path) -> None:
    nodes = [node("Pad", ["x", "p"], ["a"]), node("Sin", ["a"], ["b"]), node("ReduceMean", ["b"], ["y"])]
    net = opened(model(nodes, {"x": (FLOAT, [2, 3])}, ["y"], {"p": np.array([0, 0, 2**31, 2**31])}), tmp_path)
    with pytest.raises(ex.ExplorerError, match="an array must have at most 64 axes, and at most 2⁶³ − 1 bytes"):
        net.run(np.ones((2, 3), np.float32))


seed = (ASSETS / "digits.onnx").read_bytes()
edits = st.lists(st.tuples(st.integers(0, len(seed) - 1), st.binary(min_size=1, max_size=4)), min_size=1, max_size=6)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits, st.integers(0, 400))
def test_damaged_bytes_are_read_or_refused(tmp_path: Path, edits: list[tuple[int, bytes]], start: int) -> None:
    """Whatever bytes a file holds, it opens and is checked, or is refused with a FileError."""
    data = bytearray(seed)
    for place, new in edits:
        at = place % (start + 200)  # the start contains names and attributes, the rest weights
        data[at : at + len(new)] = new
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    try:
        net = ex.open(path)
    except ex.FileError:
        return
    try:
        net.check()
    except ex.ExplorerError:
        return


def test_hostile_names_are_kept_as_strings(tmp_path: Path) -> None:
    name = '<img src=x onerror=alert(1)>"];evil[label="\x1b'
    proto = model([node("Relu", ["x"], [name], name)], {"x": (FLOAT, [3])}, [name], {})
    proto.graph.initializer.append(numpy_helper.from_array(x, "unused"))
    net = opened(proto, tmp_path)
    from explorer.view.picture.svg import svg

    assert "<img" not in svg(net.preview_plan().recording)
    np.testing.assert_array_equal(net.run(x), x)
