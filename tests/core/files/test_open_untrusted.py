"""Untrusted files: only regular ones are opened, and they are checked after opening."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

import explorer as ex
from explorer.core.files.open_untrusted import content, opened
from explorer.formats.registry import extensions


def test_a_file_is_read_completely(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"all of it")
    assert content(path) == b"all of it"
    (tmp_path / "link").symlink_to(path)
    assert content(tmp_path / "link") == b"all of it"


@pytest.mark.spec("I-9")
def test_other_than_regular_files_raise_an_error_immediately(tmp_path: Path) -> None:
    """A pipe without a writer, a socket, a device and a folder are rejected without waiting."""
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for name, kind in {"pipe": "a pipe", "/dev/zero": "a device", ".": "a folder", "socket": ""}.items():
            with pytest.raises(ex.FileError, match=f"the file cannot be read: (this is )?{kind}"):
                opened(tmp_path / name)


@pytest.mark.spec("Q-11")
@pytest.mark.parametrize("extension", extensions())
def test_a_git_lfs_pointer_is_recognized(tmp_path: Path, extension: str) -> None:
    """Every format has the same message and fix."""
    name = f"x{extension}"
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    with pytest.raises(ex.FileError, match="this is a pointer of Git LFS") as caught:
        ex.open(tmp_path / name)
    assert caught.value.fix == "git lfs pull"


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "a" * 5000, "loop", "none"])
def test_invalid_file_names_raise_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(ex.FileError, match="the file cannot be read") as caught:
        opened(tmp_path / name)
    str(caught.value).encode("utf-8")
    for extension in (".onnx", ".json", ".pnnx.param", ".bin"):
        with pytest.raises(ex.FileError):
            ex.open(f"{tmp_path}/{name}{extension}")


def test_a_file_must_be_in_its_folder(tmp_path: Path) -> None:
    """A link to outside the folder is rejected, whatever it pointed to before."""
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "own").write_bytes(b"own")
    (folder / "link").symlink_to("own")
    with opened(folder / "link", within=folder.resolve()) as file:
        assert file.read() == b"own"
    (folder / "link").unlink()
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(ex.FileError, match="the path leads out of the folder"):
        opened(folder / "link", within=folder.resolve())


def test_a_file_larger_than_the_budget_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.onnx"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # sparse file, which uses no space
    with pytest.raises(ex.FileError, match=r"the file has 1,099,511,627,776 bytes\n.*budget.file_size"):
        ex.open(path)
    monkeypatch.setattr(ex.budget, "file_size", 4)
    path.write_bytes(b"12345")
    with pytest.raises(ex.FileError, match="at most 4 bytes"):
        content(path)


def test_the_error_of_a_missing_file_suggests_a_similar_one_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "resnet18.onnx").touch()
    (tmp_path / "labels.txt").touch()
    with pytest.raises(ex.FileError, match=r"fix: correct the path of the \.onnx file; near is .*resnet18\.onnx$"):
        ex.open(tmp_path / "resnt18.onnx")
    with pytest.raises(ex.FileError, match=r"fix: give such a file; near is .*resnet18\.onnx; open a torch module"):
        ex.open(tmp_path / "resnet18.onx")
    with pytest.raises(ex.FileError, match=r"fix: correct the path$"):
        opened(tmp_path / "something-else")
    with pytest.raises(ex.FileError, match=r"fix: correct the path$"):
        opened(tmp_path / "no-folder" / "resnet18.onnx")


@pytest.mark.parametrize(
    ("absent", "near"),
    [
        ("digits.onnx", "digits.pnnx.param"),
        ("digits", "digits.pnnx.param"),
        ("digits.pnnx", "digits.pnnx.param"),
        ("digits.json", "digits.pnnx.param"),
        ("digitz.param", "digits.pnnx.param"),
        ("digits.npx", "digits.npz"),
        ("digits_opt.onnx", "digits_opt1.pnnx.param"),
        ("labels.tx", "labels.txt"),
    ],
)
def test_suggestions_of_files_list_graphs_first(tmp_path: Path, absent: str, near: str) -> None:
    """If there is a similar graph, neither weight files nor array files are suggested."""
    names = ("digits.npz", "digits.py", "digits.pnnx.bin", "digits.pnnx.param", "digits_opt1.pnnx.param", "labels.txt")
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(ex.FileError, match=rf"near is \S*{re.escape(near)}(;|$)"):
        ex.open(tmp_path / absent)
    if "." in absent:
        with pytest.raises(ex.FileError, match=rf"near is \S*{re.escape(near)}(;|$)"):
            ex.explore(str(tmp_path / absent))
