"""External weights and inputs that are pipes, links, sparse files, or zips with large claims."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

import explorer as ex
from explorer.cli.main import main
from tests.formats.onnx.models import FLOAT, model, node, opened

x = np.arange(3, dtype=np.float32)
CHECK_LIMIT = 64 << 20
"""maximum bytes that checking weights may allocate"""


def outside(dims: list[int] | None = None, **entries: str) -> ModelProto:
    """Return a model x + w with the weight w in another file."""
    proto = model([node("Add", ["x", "w"], ["y"], "add")], {"x": (FLOAT, [3])}, ["y"])
    tensor = TensorProto(name="w", data_type=FLOAT, dims=dims or [3], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "w.bin", **entries}.items():
        tensor.external_data.add(key=key, value=value)
    proto.graph.initializer.append(tensor)
    return proto


@pytest.mark.spec("I-9")
def test_a_link_replaced_later_is_not_followed(tmp_path: Path) -> None:
    """The open file itself is checked: a link that now points outside the folder is not read."""
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(12))
    (folder / "w.bin").write_bytes(x.tobytes())
    net = opened(outside(), folder)
    (folder / "w.bin").unlink()
    (folder / "w.bin").symlink_to(tmp_path / "secret")
    with pytest.raises(ex.FileError, match="weight 'w' cannot be read: the path leads out of the folder"):
        net.run(x)
    assert any("the path leads out of the folder" in line for line in net.check())


def test_a_pipe_is_rejected_as_a_weights_file(tmp_path: Path) -> None:
    """Reading does not wait for it, for external weights and for those next to a graph."""
    os.mkfifo(tmp_path / "w.bin")
    net = opened(outside(), tmp_path)
    with pytest.raises(ex.FileError, match="weight 'w' cannot be read: this is a pipe"):
        net.run(x)
    (tmp_path / "n.pnnx.param").write_text(
        "7767517\n3 2\npnnx.Input i 0 1 x #x=(3)f32\nnn.PReLU p 1 1 x y num_parameters=1 @weight=(1)f32 #x=(3)f32\n"
        "pnnx.Output o 1 0 y\n"
    )
    os.mkfifo(tmp_path / "n.pnnx.bin")
    with pytest.raises(ex.FileError, match="this is a pipe"):
        ex.open(tmp_path / "n.pnnx.param")
    os.mkfifo(tmp_path / "m.json")
    with pytest.raises(ex.FileError, match="this is a pipe"):
        ex.open(tmp_path / "m.json")


@pytest.mark.parametrize(
    ("dims", "entries", "said"),
    [
        ([3], {"offset": str(2**63)}, "needs 12 bytes from 9223372036854775808, but the file has 0 there"),
        ([3], {"offset": "9" * 400}, "the file has 0 there"),
        ([3], {"length": str(2**40)}, "length must be 12"),
        ([2**40], {}, "needs 4398046511104 bytes from 0, but the file has 12 there"),
        ([2**40, 2**40], {}, "2⁶³ − 1 bytes"),
        ([2**62, 2**62, 0], {}, "2⁶³ − 1 bytes"),
        ([1] * 65, {}, "at most 64 axes"),
    ],
)
def test_external_sizes_are_compared_with_the_file(
    tmp_path: Path, dims: list[int], entries: dict[str, str], said: str
) -> None:
    """Offsets and lengths are checked against the file's size before reading or allocating."""
    (tmp_path / "w.bin").write_bytes(x.tobytes())
    with pytest.raises(ex.FileError, match=said):
        opened(outside(dims, **entries), tmp_path).definition.verify("add", "B")


def test_a_sparse_file_of_a_terabyte_is_checked_but_not_read(tmp_path: Path) -> None:
    """Checking finds the weight, and a run that needs it raises an error."""
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(1 << 40)
    proto = outside([1 << 38])
    proto.graph.node[0].op_type = "Mul"
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    net = opened(proto, tmp_path)
    assert net.check() == []
    with pytest.raises(ex.BudgetError, match="claims 1 TB of memory"):
        net.run(x[:1])


def _zip(name: str, content: bytes, damage: Callable[[bytearray], None] | None = None, **kept: Any) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **kept) as archive:
        archive.writestr(name, content)
    value = bytearray(buffer.getvalue())
    if damage is not None:
        damage(value)
    return bytes(value)


def _array(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _encrypt(made: bytearray) -> None:
    made[6] |= 1
    made[made.index(b"PK\1\2") + 8] |= 1


def _header(text: str) -> bytes:
    written = text.encode("latin1").ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(written).to_bytes(2, "little") + written


HUGE = _header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}")
INPUTS = {
    "encrypted.npz": (_zip("x.npy", _array(x), _encrypt), "'x' is encrypted"),
    "lzma.npz": (
        _zip("x.npy", _array(x), compression=zipfile.ZIP_LZMA),
        "only stored and deflated entries are supported",
    ),
    "huge.npz": (_zip("x.npy", HUGE), "its header requires 4000000000128"),
    "huge.npy": (HUGE, "its header requires 4000000000128"),
    "negative.npy": (HUGE.replace(b"(1000000000000,)", b"(-1,)           "), "which is not an array of numbers"),
    "beyond.npy": (HUGE.replace(b"(1000000000000,)", b"(2**62, 2**62)  "), "cannot be read as arrays"),
    "axes.npy": (
        _header("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 30 + ")}"),
        "its header requires 132",
    ),
    "objects.npy": (_header("{'descr': '|O', 'fortran_order': False, 'shape': (3,)}"), "not an array of numbers"),
    "nested.npy": (_header("(" * 100), "cannot be read as arrays: "),
    "bomb.npz": (_zip("x.npy", HUGE + bytes(1 << 24), compression=zipfile.ZIP_DEFLATED), "its header requires"),
    "text.npz": (_zip("readme.txt", b"hello"), "cannot be read as arrays"),
    "nothing.npz": (b"", "neither a .npz archive nor a .npy array"),
    "pickle.npz": (b"\x80\x04N.", "neither a .npz archive nor a .npy array"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_errors_of_unreadable_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Damaged, encrypted, and oversized arrays raise an error with one message."""
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(INPUTS[name][0])
    proto = model([node("Relu", ["x"], ["y"], "r")], {"x": (FLOAT, [3])}, ["y"])
    Path("m.onnx").write_bytes(proto.SerializeToString())
    assert main(["run", "m.onnx", "--input", name]) == 2
    text = capsys.readouterr().err
    assert INPUTS[name][1] in text
    assert "a fault of explorer" not in text
    assert "('" not in text  # arguments of an exception


def test_the_memory_option_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run above --memory raises an error that contains the sufficient value."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ex.budget, "memory", 1 << 30)
    proto = model([node("Relu", ["x"], ["y"], "r")], {"x": (FLOAT, [3])}, ["y"])
    Path("m.onnx").write_bytes(proto.SerializeToString())
    np.savez("in.npz", x=x)
    assert main(["run", "m.onnx", "--input", "in.npz", "--memory", "8B"]) == 2
    assert "or on the command line: --memory 12" in capsys.readouterr().err
    assert main(["run", "m.onnx", "--input", "in.npz", "--memory", "1MB"]) == 0
    with pytest.raises(SystemExit):
        main(["run", "m.onnx", "--input", "in.npz", "--memory", "much"])
    assert "'much' is not a number of bytes" in capsys.readouterr().err


def test_checking_does_not_unpack_a_weight_completely(tmp_path: Path) -> None:
    """A weight that a megabyte unpacks to is compared with its checksum in pieces; damage is found."""
    import tracemalloc

    size = 1 << 27
    with zipfile.ZipFile(tmp_path / "n.pnnx.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("p.weight", bytes(4 * size))
    (tmp_path / "n.pnnx.param").write_text(
        f"7767517\n3 2\npnnx.Input i 0 1 x #x=({size})f32\nnn.PReLU p 1 1 x y num_parameters={size} "
        f"@weight=({size})f32\npnnx.Output o 1 0 y\n"
    )
    net = ex.open(tmp_path / "n.pnnx.param")
    tracemalloc.start()
    net.check()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < CHECK_LIMIT


def test_entries_that_unpack_beyond_the_budget_raise_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of all entries of a zip are added up when the file is opened."""
    monkeypatch.setattr(ex.budget, "file_size", 1 << 16)
    with zipfile.ZipFile(tmp_path / "n.pnnx.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("p.weight", bytes(1 << 17))
    (tmp_path / "n.pnnx.param").write_text(
        "7767517\n3 2\npnnx.Input i 0 1 x #x=(32768)f32\nnn.PReLU p 1 1 x y num_parameters=32768 "
        "@weight=(32768)f32\npnnx.Output o 1 0 y\n"
    )
    with pytest.raises(ex.FileError, match=r"unpack to 128 KB more than their size; budget\.file_size allows 64 KB"):
        ex.open(tmp_path / "n.pnnx.param")
