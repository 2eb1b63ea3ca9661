"""Unsupported formats: errors with their names and a conversion to a supported one."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import explorer as ex
from explorer.formats.common.unsupported_formats import UNSUPPORTED_FORMATS, UnsupportedFormat
from explorer.formats.registry import extensions

EXTENSIONS = [(row, extension) for row in UNSUPPORTED_FORMATS for extension in row.extensions]


@pytest.mark.spec("I-9")
@pytest.mark.parametrize(("row", "extension"), EXTENSIONS, ids=[extension for _, extension in EXTENSIONS])
def test_the_error_of_an_unsupported_format_contains_its_name(
    row: UnsupportedFormat, extension: str, tmp_path: Path
) -> None:
    """For some 50 file extensions, the error names the format and how to convert it."""
    path = tmp_path / f"a net{extension}"
    path.write_bytes(b"")
    with pytest.raises(ex.FileError) as raised:
        ex.open(path)
    assert f"the extension {extension!r} denotes {row.name}" in raised.value.given
    assert "{" not in raised.value.fix
    assert any(word in raised.value.fix for word in (".onnx", "ex.open(", ".npz", ".safetensors", ".gguf", ".param"))
    for command in raised.value.fix.split("; "):
        if command.startswith("python -m") or command.startswith("paddle2onnx"):
            assert shlex.split(command)


def test_no_format_is_both_supported_and_unsupported() -> None:
    refused = [extension for _, extension in EXTENSIONS]
    assert len(refused) == len({*refused})
    assert not {*refused} & {*extensions()}


def test_folders_with_models_are_recognized(tmp_path: Path) -> None:
    """A SavedModel is recognized by the file in it, Core ML's package by its extension."""
    saved = tmp_path / "saved model"
    saved.mkdir()
    with pytest.raises(ex.FileError, match="this is a folder\n"):
        ex.open(saved)
    (saved / "saved_model.pb").touch()
    with pytest.raises(ex.FileError, match=r"a folder of TensorFlow.*(.|\n)*--saved-model '.*saved model' --output"):
        ex.open(saved)
    package = tmp_path / "x.mlpackage"
    package.mkdir()
    with pytest.raises(ex.FileError, match="a folder of Core ML, which is not supported"):
        ex.open(package)


@pytest.mark.parametrize(
    "operator", ["Input data 0 1 x 0=224 1=224 2=3", "Input data 0 1 x", "Convolution c 0 1 x 0=64 -23301=1,2"]
)
def test_a_file_of_ncnn_is_recognized(operator: str, tmp_path: Path) -> None:
    """It begins with pnnx's magic number, and has its extension."""
    path = tmp_path / "x.param"
    path.write_text(f"7767517\n1 1\n{operator}\n")
    with pytest.raises(ex.FileError, match=r"(?s)line 3: .*an ncnn file, not a pnnx file.*open x\.pnnx\.param"):
        ex.open(path)
