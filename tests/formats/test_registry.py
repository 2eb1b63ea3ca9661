"""The registry of formats: user-defined formats are opened, saved, drawn and run; existing ones are not replaced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.formats import registry
from explorer.formats.registry import FORMATS, Format, extensions, format_of
from explorer.net import BlobType, NetDefinition, OperatorDefinition
from tests.support.refusals import refused


def read_words(path: Path) -> NetDefinition:
    """Read a chain of operator types without weights."""
    types = path.read_text().split()
    operators = [OperatorDefinition(type, f"op{i}", (f"x{i}",), (f"x{i + 1}",)) for i, type in enumerate(types)]
    known = {"x0": BlobType((2,), "float64")}
    return NetDefinition.of(path.stem, operators, ["x0"], [f"x{len(types)}"], known, source=str(path))


def write_words(definition: NetDefinition, path: Path) -> None:
    path.write_text(" ".join(operator.type for operator in definition.operators))


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    held = dict(FORMATS)
    yield
    FORMATS.clear()
    FORMATS.update(held)


INSTALLED = Format("chained", (".chained",), read_words, None, "explorer.formats.pnnx.operators")


def test_a_format_of_an_installed_package_is_found_through_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entry points in the group ``explorer.formats`` are loaded only if no built-in extension matches."""
    package = tmp_path / "chained-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: chained\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[explorer.formats]\nchained = {__name__}:INSTALLED\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry._add_installed.cache_clear()
    (tmp_path / "n.chained").write_text("nn.ReLU")
    np.testing.assert_array_equal(ex.open(tmp_path / "n.chained").run(np.array([-1.0, 2.0])), [0, 2])
    assert ".chained" in extensions()


@pytest.mark.spec("I-1")
def test_a_user_defined_format_is_read_run_drawn_and_written(tmp_path: Path) -> None:
    """It has its own operator types, or those of an existing format."""
    ex.register_format("words", ".words", read_words, write_words)
    ex.file_operator("Halve", format="words")(lambda op: op.tensor(0) * 0.5)
    assert ex.layer_types("words") == ["Halve"]
    (tmp_path / "n.words").write_text("Halve Halve")
    net = ex.open(tmp_path / "n.words")
    assert net.definition.dialect == "words"
    np.testing.assert_array_equal(net.run(np.ones(2)), [0.25, 0.25])
    assert len(net.preview_plan().recording.nodes) >= 3
    net.save(tmp_path / "again.words")
    assert (tmp_path / "again.words").read_text() == "Halve Halve"
    net.save(tmp_path / "n.json")
    np.testing.assert_array_equal(ex.open(tmp_path / "n.json").run(np.ones(2)), [0.25, 0.25])
    with refused(ex.FileError, "'words'", "n.words"):
        net.save(tmp_path / "n.pnnx.param")
    ex.register_format("torch words", ".torch", read_words, operators="pnnx")
    (tmp_path / "n.torch").write_text("nn.ReLU nn.Tanh")
    np.testing.assert_array_equal(ex.open(tmp_path / "n.torch").run(np.ones(2)), np.tanh(np.ones(2)))
    with refused(ex.FileError, ".h5", ".words", ".torch", ".onnx"):
        ex.open(tmp_path / "n.h5")


def test_the_weights_argument_is_passed_to_a_reader_that_accepts_it(tmp_path: Path) -> None:
    given: list[Any] = []

    def read(path: Path, weights: Path | None) -> NetDefinition:
        given.append(weights)
        return read_words(path)

    ex.register_format("words", ".words", read, operators="pnnx", weights_extension=".numbers")
    ex.register_format("plain", ".plain", read_words, operators="pnnx")
    for name in ("n.words", "n.plain", "n.numbers"):
        (tmp_path / name).write_text("nn.ReLU")
    ex.open(tmp_path / "n.words")
    ex.open(tmp_path / "n.words", weights=tmp_path / "w")
    assert given == [None, tmp_path / "w"]
    with refused(ex.FileError, "'plain'"):
        ex.open(tmp_path / "n.plain", weights=tmp_path / "w")
    with refused(ex.FileError, "n.words"):
        ex.open(tmp_path / "n.numbers")


def test_the_error_of_a_reader_without_a_definition_contains_its_name(tmp_path: Path) -> None:
    ex.register_format("bad", ".bad", lambda path: None)  # type: ignore[arg-type, return-value]
    (tmp_path / "n.bad").write_text("")
    with refused(ex.FileError, "'bad'", "NoneType", "NetDefinition"):
        ex.open(tmp_path / "n.bad")


@pytest.mark.parametrize(
    ("name", "extension", "named"),
    [("pnnx", ".new", "'pnnx'"), ("new", ".json", "'.json'"), ("onnx", ".onnx", "'.onnx'")],
)
def test_an_existing_format_is_replaced_only_explicitly(name: str, extension: str, named: str, tmp_path: Path) -> None:
    before = dict(FORMATS)
    with refused(ex.DeclarationError, named, "replace=True"):
        ex.register_format(name, extension, read_words)
    assert before == FORMATS
    ex.register_format(name, extension, read_words, operators="pnnx", replace=True)
    result = format_of(f"x{extension}")
    assert result is not None
    assert result.name == name
    assert result.read is read_words


def test_an_invalid_format_raises_an_error() -> None:
    before = extensions()
    for wrong in (("", ".a", read_words), ("a", "a", read_words), ("a", (), read_words), ("a", ".a", None)):
        with refused(ex.DeclarationError):
            ex.register_format(*wrong)  # type: ignore[arg-type]
    with refused(ex.UnknownNameError, "pnnx", "onnx", "explorer"):
        ex.register_format("a", ".a", read_words, operators="onxx")
    assert "a" not in FORMATS
    assert extensions() == before
