"""GGUF files: files of the format's own package are read, and damaged ones raise an error."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter, dequantize, quantize
from gguf.constants import GGML_QUANT_SIZES
from hypothesis import example, given
from hypothesis import strategies as st

import explorer as ex
from explorer.formats.weight_tables.gguf_header import TYPES

rng = np.random.default_rng(0)
MATRIX = rng.normal(size=(4, 256)).astype(np.float32)
BLOCKS = [GGMLQuantizationType[name] for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ2_0", "MXFP4")]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a file with the package: metadata of many kinds, numbers, and blocks."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_token_list(["a", "bc"] * 10)
    writer.add_array("numbers", [1, 2, 3])
    writer.add_float32("eps", 0.5)
    for type in BLOCKS:
        writer.add_tensor(f"blk.0.{type.name}.weight", quantize(MATRIX, type), raw_dtype=type)
    writer.add_tensor("blk.1.norm.weight", MATRIX[0])
    writer.add_tensor("blk.1.half", MATRIX.astype(np.float16))
    writer.add_tensor("blk.1.brain", quantize(MATRIX, GGMLQuantizationType.BF16), raw_dtype=GGMLQuantizationType.BF16)
    writer.add_tensor("ids", np.arange(3, dtype=np.int32))
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    return path


@pytest.mark.spec("I-15")
def test_files_of_the_gguf_package_are_read(model: Path) -> None:
    """The table has each tensor's type, shape and size; values of blocks are read as floats."""
    net = ex.open(model)
    np.testing.assert_array_equal(net["blk.1.norm"].weight.array, MATRIX[0], strict=True)
    np.testing.assert_array_equal(net["blk.1"].half.array, MATRIX.astype(np.float16), strict=True)
    np.testing.assert_allclose(net["blk.1"].brain.array, MATRIX, rtol=2**-8)
    np.testing.assert_array_equal(net["tiny"].ids.array, np.arange(3, dtype=np.int32), strict=True)
    for type in BLOCKS:
        value = net[f"blk.0.{type.name}"].weight.array
        np.testing.assert_array_equal(value, dequantize(quantize(MATRIX, type), type), strict=True)
    assert "  blk.0.Q4_0: weight Q4_0 4×256 576 B" in net.text()
    stated = {"general.name": "tiny", "tokenizer.ggml.tokens": "20 values", "numbers": "3 values", "eps": "0.5"}
    assert {name: value for name, value in net.definition.metadata if name in stated} == stated
    assert net.check() == []


def test_the_types_equal_those_of_the_package() -> None:
    assert {number: (type.name, *GGML_QUANT_SIZES[type]) for number, type in enumerate_types()} == TYPES


def enumerate_types() -> list[tuple[int, GGMLQuantizationType]]:
    return [(int(type), type) for type in GGML_QUANT_SIZES]


def test_without_the_package_numbers_are_read_and_blocks_are_listed(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading the values of blocks raises an error with the pip command."""
    monkeypatch.setattr("explorer.formats.weight_tables.gguf.find_spec", lambda name: None)
    net = ex.open(model)
    assert net["blk.1.norm"].weight.array.shape == (256,)
    with pytest.raises(ex.FileError, match=r"(?s)has blocks of Q4_0.*pip install 'explorer-graphs\[gguf\]'"):
        _ = net["blk.0.Q4_0"].weight.array


def header(*parts: Any, tensors: int = 1, entries: int = 0, version: int = 3) -> bytes:
    """Return the bytes of a file: strings with their length, 4-byte numbers, and bytes unchanged."""
    data = b"GGUF" + struct.pack("<IQQ", version, tensors, entries)
    for part in parts:
        if isinstance(part, str):
            data += struct.pack("<Q", len(part)) + part.encode()
        else:
            data += part if isinstance(part, bytes) else struct.pack("<I", part)
    return data


def tensor(*shape: int, type: int = 0, offset: int = 0, name: str = "w") -> tuple[Any, ...]:
    return name, len(shape), struct.pack(f"<{len(shape)}Q", *shape), type, struct.pack("<Q", offset)


HOSTILE = {
    "another file": (b"PK" * 20, "does not begin with GGUF"),
    "version": (header(version=1), "has version 1"),
    "big-endian": (header(version=3 << 24), "its numbers are big-endian"),
    "tensors": (header(tensors=2**60), "it declares 1152921504606846976 tensors"),
    "entries": (header(entries=2**60, tensors=0), "metadata entries, but only 0 bytes follow"),
    "text": (header(struct.pack("<Q", 2**60), bytes(24)), "its header needs"),
    "array": (header("k", 9, 4, struct.pack("<Q", 2**60), bytes(40), entries=1), "metadata values, but only"),
    "nested": (header("k", 9, 9, struct.pack("<Q", 1), bytes(40), entries=1), "an array of type 9"),
    "kind": (header("k", 77, bytes(40), entries=1), "metadata of type 77"),
    "axes": (header(*tensor(1, 1, 1, 1, 1)), "'w' has 5 axes"),
    "size": (header(*tensor(2**40, 2**40)), "the file has"),
    "offset": (header(*tensor(1, offset=2**63)), "the file has"),
    "unknown type": (header(*tensor(1, type=99, offset=2**40), bytes(64)), "'w' has 0 bytes from"),
    "blocks": (header(*tensor(33, type=2), bytes(64)), "rows of 33 elements"),
    "twice": (header(*tensor(1), *tensor(1), bytes(64), tensors=2), "there are two tensors 'w'"),
    "alignment": (header("general.alignment", 4, 0, *tensor(1), bytes(64), entries=1), "general.alignment is 0"),
    "no text": (header(struct.pack("<Q", 2), b"\xff\xff", bytes(40)), "must be UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_header_with_excessive_claims_raises_an_error(name: str, tmp_path: Path) -> None:
    """Each count and length is compared with the file before it is used."""
    data, said = HOSTILE[name]
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    with pytest.raises(ex.FileError, match=said):
        ex.open(path)


@pytest.mark.spec("Q-11")
def test_a_tensor_of_an_unknown_type_is_listed(tmp_path: Path) -> None:
    """Newer types have a row with the bytes up to the next tensor, but no values."""
    path = tmp_path / "x.gguf"
    described = [
        *tensor(256, type=36, name="a.w"),
        *tensor(4, name="a.v", offset=64),
        *tensor(9, type=1000, name="b.w", offset=96),
    ]
    data = header(*described, tensors=3)
    path.write_bytes(data + bytes(-len(data) % 32) + bytes(64) + np.arange(4, dtype=np.float32).tobytes() + bytes(30))
    net = ex.open(path)
    assert net["a"].arguments["w"] == "a tensor of type 36, which explorer does not support"
    assert net["a"].v.array.tolist() == [0, 1, 2, 3]
    assert "a: w type 36 256 64 B, v F32 4 16 B" in net.text()
    assert "b: w type 1000 9 14 B" in net.text()
    assert net.check() == []


@given(st.integers(0, 900), st.integers(0, 255), st.integers(0, 1200))
@example(489, 2, 0)  # a changed tensor type: its bytes become blocks of another type, whose scales may be ∞ or NaN
def test_a_damaged_file_is_refused_or_read(
    model: Path, tmp_path_factory: pytest.TempPathFactory, place: int, byte: int, end: int
) -> None:
    data = bytearray(model.read_bytes())
    data[place] = byte
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    for damaged in (bytes(data), bytes(data[:end])):
        path.write_bytes(damaged)
        try:
            net = ex.open(path)
            net.preview_plan()
            values = [weight.array for operator in net.operators.values() for weight in operator.weights.values()]
        except (ex.FileError, ex.BudgetError):
            continue
        assert all(isinstance(value, np.ndarray) for value in values)
