"""Large weights of ONNX files stay in the file when it is opened, and are read when they are needed."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper

import explorer as ex
from explorer.core.files.kept_file import KeptFile
from explorer.formats.onnx.large_elements import LARGE, MessageWithoutElements
from tests.formats.onnx.models import FLOAT, model, node

WIDE = LARGE // 4 + 1
rng = np.random.default_rng(0)


def branch(name: str, value: Any) -> Any:
    """Return a graph that returns a constant."""
    constant = helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))
    return helper.make_graph([constant], name, [], [helper.make_tensor_value_info(name, FLOAT, [WIDE])])


WEIGHTS = {name: rng.normal(size=WIDE).astype(np.float32) for name in ("w", "constant", "yes", "no")}


def whole() -> ModelProto:
    """Return x + w + a constant + one of two branch constants, with a small weight and typed data, too."""
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(WEIGHTS["constant"]))
    branches = {f"{side}_branch": branch(name, WEIGHTS[name]) for side, name in (("then", "yes"), ("else", "no"))}
    nodes = [
        constant,
        node("Add", ["x", "w"], ["a"], "add"),
        node("Add", ["a", "c"], ["b"], "add_constant"),
        node("Add", ["b", "listed"], ["d"], "add_listed"),
        helper.make_node("If", ["flag"], ["i"], "if", **branches),
        node("Add", ["d", "i"], ["y"], "add_branch"),
    ]
    proto = model(nodes, {"x": (FLOAT, [WIDE]), "flag": (TensorProto.BOOL, [])}, ["y"])
    proto.graph.initializer.append(numpy_helper.from_array(WEIGHTS["w"], "w"))
    proto.graph.initializer.append(helper.make_tensor("listed", FLOAT, [WIDE], [1.0] * WIDE))
    return proto


def written(folder: Path, data: bytes) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(data)
    return path


def restored(light: MessageWithoutElements) -> ModelProto:
    """Return the message with its elements instead of their marks."""
    message = ModelProto.FromString(light.data)
    waiting: list[Any] = [message]
    while waiting:
        part = waiting.pop()
        if isinstance(part, TensorProto) and part.raw_data in light.elements:
            part.raw_data = light.elements[part.raw_data].read().tobytes()
        for field, value in part.ListFields():
            if field.message_type is not None:
                waiting += value if field.is_repeated else [value]
    return message


@pytest.mark.spec("I-15")
def test_large_weights_stay_in_the_file_until_they_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ONNX file of any size is drawn without reading weights; a run, or displaying a weight, reads them."""
    path = written(tmp_path, whole().SerializeToString())
    light = MessageWithoutElements(KeptFile(path))
    assert len(light.elements) == 4
    assert len(light.data) < path.stat().st_size - 4 * 4 * WIDE + 400
    read: list[int] = []
    part = KeptFile.part
    monkeypatch.setattr(KeptFile, "part", lambda self, first, size: read.append(size) or part(self, first, size))
    net = ex.open(path)
    net.preview_plan()
    assert net.check() == []
    assert 4 * WIDE not in read
    x = np.zeros(WIDE, np.float32)
    for flag, name in ((True, "yes"), (False, "no")):
        expected = WEIGHTS["w"] + WEIGHTS["constant"] + np.float32(1) + WEIGHTS[name]
        np.testing.assert_allclose(net.run(x, np.array(flag)), expected, rtol=1e-6)
    np.testing.assert_array_equal(net["add"].weights["B"].array, WEIGHTS["w"])
    assert read.count(4 * WIDE) == 4


def test_elements_of_a_modified_file_raise_an_error(tmp_path: Path) -> None:
    """They may belong to another model; a replaced file still exists for processes that have it open."""
    path = written(tmp_path, whole().SerializeToString())
    net = ex.open(path)
    shutil.copyfile(path, tmp_path / "copy")
    (tmp_path / "copy").replace(path)
    np.testing.assert_array_equal(net["add"].weights["B"].array, WEIGHTS["w"])
    again = ex.open(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ex.FileError, match="the file has changed since it was opened"):
        _ = again["add"].weights["B"].array
    assert any("has changed since it was opened" in finding for finding in again.check())


def test_weights_are_equal_in_another_process(tmp_path: Path) -> None:
    """A definition sent to another process opens the file there."""
    net = ex.open(written(tmp_path, whole().SerializeToString()))
    weights = pickle.loads(pickle.dumps(net.definition.weights))
    np.testing.assert_array_equal(weights["w"], WEIGHTS["w"])


@given(st.data())
def test_no_file_is_read_differently(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    """Whatever bytes are others: with its elements put back, a message is what the parser makes of the file."""
    damaged = bytearray(whole().SerializeToString())
    marks = [place for place in range(len(damaged)) if place < 200 or damaged[place : place + 1] in b"\x4a\x2a\x12"]
    for _ in range(data.draw(st.integers(0, 3))):
        damaged[data.draw(st.sampled_from(marks))] = data.draw(st.integers(0, 255))
    path = written(tmp_path_factory.getbasetemp(), bytes(damaged[: data.draw(st.integers(0, 2 * len(damaged)))]))
    light = MessageWithoutElements(KeptFile(path))
    try:
        expected = ModelProto.FromString(path.read_bytes())
    except DecodeError:
        with pytest.raises(DecodeError):
            restored(light)
    else:
        results, wanted = (message.SerializeToString(deterministic=True) for message in (restored(light), expected))
        assert results == wanted


def test_deeply_nested_messages_cause_no_recursion(tmp_path: Path) -> None:
    """A file nested deeper than any parser supports is rejected like other damaged files."""
    inner = bytes(2 * LARGE)
    for _ in range(300):  # a graph with a node with an attribute with a graph
        for key in (b"\x32", b"\x2a", b"\x0a"):
            inner = key + length(len(inner)) + inner
    path = written(tmp_path, b"\x08\x07\x3a" + length(len(inner)) + inner)
    with pytest.raises(ex.FileError, match="this ONNX model is"):
        ex.open(path)


def length(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def test_a_file_may_exceed_the_limit_if_less_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit for files read as a whole counts only what is read."""
    path = written(tmp_path, whole().SerializeToString())
    monkeypatch.setattr(ex.budget, "file_size", 3 * LARGE)
    assert ex.open(path).check() == []
    monkeypatch.setattr(ex.budget, "file_size", LARGE)
    with pytest.raises(ex.FileError, match=r"without its large weights(.|\n)*ex\.budget\.file_size = "):
        ex.open(path)


def test_long_lists_are_skipped_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attribute lists have one field for each element: forests have millions, which are not visited one by one."""
    count = 50_000
    lists = {"ints": list(range(count)), "floats": [0.5] * count, "texts": ["BRANCH_LEQ", "LEAF"] * (count // 2)}
    proto = model([node("Trees", ["x"], ["y"], domain="own", **lists)], {"x": (FLOAT, [1])}, ["y"], {"w": WEIGHTS["w"]})
    fields: list[int] = []
    look = MessageWithoutElements._field

    def counted(self: MessageWithoutElements, place: int, end: int) -> Any:
        fields.append(place)
        return look(self, place, end)

    monkeypatch.setattr(MessageWithoutElements, "_field", counted)
    light = MessageWithoutElements(KeptFile(written(tmp_path, proto.SerializeToString())))
    assert len(fields) < count // 100
    assert restored(light) == proto
