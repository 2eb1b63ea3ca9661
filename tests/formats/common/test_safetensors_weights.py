"""Weights in ``.safetensors`` files: files of the format's own package are read, and damaged ones raise an error."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.formats.common.safetensors_weights import SafetensorsWeights
from explorer.net.definition.definition import WeightReference

DIGITS = Path(__file__).parents[3] / "assets" / "digits.pnnx.param"
WRITTEN = (
    b'\xe0\0\0\0\0\0\0\0{"__metadata__":{"format":"np"},"fc.bias":{"dtype":"I64","shape":[3],"data_offsets":[0,24]},'
    b'"conv.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[24,48]},'
    b'"gone":{"dtype":"BOOL","shape":[2],"data_offsets":[48,50]}}      '
    + np.array([1, -2, 3], "<i8").tobytes()
    + np.arange(6, dtype="<f4").tobytes()
    + b"\1\0"
)
"""file as written by safetensors 0.8.0: ``save(arrays, metadata={"format": "np"})``"""
DECLARED = [
    WeightReference("conv.weight", (2, 3), "float32"),
    WeightReference("fc.bias", (3,), "int64"),
    WeightReference("gone", (2,), "bool"),
]
NAMES = {"float32": "F32", "float64": "F64", "float16": "F16", "int64": "I64", "int32": "I32", "uint16": "U16"} | {
    "bool": "BOOL", "complex64": "C64", "uint8": "U8", "int8": "I8", "int16": "I16", "uint32": "U32", "uint64": "U64",
}  # fmt: skip


def packed(header: Any, data: bytes = b"") -> bytes:
    """Return a file with a header given as JSON data or as a string."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: str, shape: tuple[int, ...], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": (begin, end)}


def stored(arrays: dict[str, Any]) -> bytes:
    """Return a file of arrays."""
    header, data = {}, b""
    for key, array in arrays.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[key] = entry(NAMES[array.dtype.name], array.shape, len(data), len(data) + len(raw))
        data += raw
    return packed(header, data)


def weights(folder: Path, data: bytes, *declared: WeightReference) -> SafetensorsWeights:
    path = folder / "x.safetensors"
    path.write_bytes(data)
    return SafetensorsWeights(path, declared or [WeightReference("w", (2, 3), "float32")])


@pytest.mark.spec("I-15")
def test_files_of_the_safetensors_package_are_read(tmp_path: Path) -> None:
    arrays = weights(tmp_path, WRITTEN, *DECLARED)
    np.testing.assert_array_equal(arrays["conv.weight"], np.arange(6, dtype=np.float32).reshape(2, 3), strict=True)
    np.testing.assert_array_equal(arrays["fc.bias"], np.array([1, -2, 3]), strict=True)
    np.testing.assert_array_equal(arrays["gone"], np.array([True, False]), strict=True)
    assert not any(arrays[key].flags.writeable for key in arrays)
    for key in arrays:
        arrays.verify(key)
    with pytest.raises(ex.UnknownNameError, match=r"conv\.weight"):
        arrays["conv.weigth"]
    copy = pickle.loads(pickle.dumps(arrays))
    assert copy["fc.bias"].tolist() == [1, -2, 3]


@pytest.mark.parametrize("dtype", NAMES)
def test_every_dtype_is_read_exactly(dtype: str, tmp_path: Path) -> None:
    array = np.array([[0, 1, 2], [3, 1, 0]]).astype(dtype)
    arrays = weights(tmp_path, stored({"before": np.ones(3, np.int8), "w": array}), WeightReference("w", (2, 3), dtype))
    np.testing.assert_array_equal(arrays["w"], array, strict=True)


def test_bfloat16_is_widened_if_float32_is_declared(tmp_path: Path) -> None:
    values = np.array([1.0, -2.5, np.inf], np.float32)
    data = packed({"w": entry("BF16", (3,), 0, 6)}, (values.view(np.uint32) >> 16).astype("<u2").tobytes())
    for dtype in ("float32", "bfloat16"):
        result = weights(tmp_path, data, WeightReference("w", (3,), dtype))["w"]
        np.testing.assert_array_equal(result, values, strict=True)


@pytest.mark.spec("I-1")
def test_a_net_is_opened_with_weights_from_another_file(tmp_path: Path) -> None:
    """`ex.open(graph, weights="x.safetensors")` gives equal results for PNNX's and explorer's own files."""
    image = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
    net = ex.open(DIGITS)
    graphs = [Path(shutil.copy(DIGITS, tmp_path / "alone.pnnx.param")), tmp_path / "own.json"]
    net.save(graphs[1])
    beside = tmp_path / "tuned.safetensors"
    arrays = {key: net.definition.weights[key] for key in net.definition.weights}
    beside.write_bytes(stored(arrays))
    for graph in graphs:
        np.testing.assert_array_equal(ex.open(graph, weights=beside).run(image), net.run(image))
    with pytest.raises(ex.FileError, match="must be opened without weights="):
        ex.open(Path(DIGITS).parent / "digits.onnx", weights=beside)
    with pytest.raises(ex.FileError, match=r"No such file or directory[\s\S]*near is .*alone\.pnnx\.param"):
        ex.open(tmp_path / "alon.pnnx.param", weights=beside)
    tuned = np.arange(10, dtype=np.float32)
    arrays["fc2.bias"] = net["fc2"].bias = tuned
    beside.write_bytes(stored(arrays))
    for graph in graphs:
        np.testing.assert_array_equal(ex.open(graph, weights=beside).run(image), net.run(image))
        with pytest.raises(ex.FileError, match=r"none\.safetensors: the file of weights cannot be read"):
            ex.open(graph, weights=tmp_path / "none.safetensors")
    assert ex.open(beside).definition.is_table


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file has 0 bytes, but declares a header of 0"),
        (b"\x02\0\0", "the file has 3 bytes"),
        ((1 << 62).to_bytes(8, "little") + b"{}", "declares a header of 4611686018427387904"),
        (packed(b"{"), "cannot be read as JSON"),
        (packed(b"\xff"), "cannot be read as JSON"),
        (packed(b"[" * 100_000), "nested too deeply"),
        (packed(b'{"w": ' + b"9" * 5000 + b"}"), "cannot be read as JSON"),
        (packed([]), "the header is a list"),
        (packed({}), "weight 'w' is missing"),
        (packed({"v": entry("F32", (2, 3), 0, 24)}, bytes(24)), r"'w' is missing\n.*the file contains 1 tensor: v"),
        (packed({"__metadata__": {}}), "the file contains 0 tensors"),
        (packed({"w": []}), "'w' cannot be read: header field entry: expected an object"),
        (packed({"w": {"dtype": "F32", "shape": [2, 3]}}), "found no data_offsets"),
        (packed({"w": entry("F32", (2, 3), 0, 24) | {"x": 1}}, bytes(24)), "found unknown 'x'"),
        (
            packed({"w": entry("F32", (2, 3), 0, 24) | {"shape": [2, 3.0]}}, bytes(24)),
            r"shape\[1\]: expected an integer",
        ),
        (packed({"w": entry("F32", (3, 2), 0, 24)}, bytes(24)), r"is 'F32' \(3, 2\), but declared as float32 \(2, 3\)"),
        (packed({"w": entry("F16", (2, 3), 0, 12)}, bytes(12)), "is 'F16'"),
        (packed({"w": entry("F8_E4M3", (2, 3), 0, 6)}, bytes(6)), "is 'F8_E4M3'"),
        (packed({"w": entry("F32", (1,) * 1000, 0, 4)}, bytes(4)), "is 'F32'"),
        (packed({"w": entry("F32", (2, 3), 0, 24)}, bytes(23)), "has the bytes 0 to 24 of 23"),
        (packed({"w": entry("F32", (2, 3), 1, 25)}, bytes(24)), "has the bytes 1 to 25 of 24"),
        (packed({"w": entry("F32", (2, 3), 0, 25)}, bytes(25)), "has the bytes 0 to 25"),
        (packed({"w": entry("F32", (2, 3), -24, 0)}, bytes(24)), "has the bytes -24 to 0"),
        (
            packed({"w": entry("F32", (2, 3), 1 << 70, (1 << 70) + 24)}, bytes(24)),
            "has the bytes 1180591620717411303424",
        ),
    ],
)
def test_a_mismatching_file_raises_an_error_when_the_net_is_opened(data: bytes, said: str, tmp_path: Path) -> None:
    """The header is compared with the declarations and the file's size before anything is read."""
    with pytest.raises(ex.FileError, match=said):
        weights(tmp_path, data)


def test_a_claimed_size_allocates_no_memory(tmp_path: Path) -> None:
    huge = WeightReference("w", (1 << 40,), "float32")
    with pytest.raises(ex.FileError, match="has the bytes 0 to 4398046511104 of 4"):
        weights(tmp_path, packed({"w": entry("F32", (1 << 40,), 0, 1 << 42)}, bytes(4)), huge)


def test_other_than_a_regular_file_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(ex.FileError, match="a folder"):
        SafetensorsWeights(tmp_path, DECLARED)
    os.mkfifo(tmp_path / "x.safetensors")
    with pytest.raises(ex.FileError, match="a pipe"):
        SafetensorsWeights(tmp_path / "x.safetensors", DECLARED)


def test_a_file_truncated_while_it_is_open_raises_an_error(tmp_path: Path) -> None:
    """A memory-mapped file would end the process."""
    data = stored({"v": np.ones(10_000, np.int32), "w": np.ones(10_000, np.float32)})
    arrays = weights(
        tmp_path, data, WeightReference("v", (10_000,), "int32"), WeightReference("w", (10_000,), "float32")
    )
    assert arrays["v"].sum() == 10_000
    os.truncate(arrays.path, len(data) - 10_000)
    for ask in (arrays.__getitem__, arrays.verify):
        with pytest.raises(ex.FileError, match=f"it has 70,150 bytes, where it had {len(data):,}"):
            ask("w")


@given(st.integers(0, len(WRITTEN) - 1), st.integers(0, 255), st.integers(0, len(WRITTEN)))
def test_a_damaged_file_is_refused_or_gives_what_is_declared(
    tmp_path_factory: pytest.TempPathFactory, place: int, byte: int, end: int
) -> None:
    """One byte is another, and the file is cut off: an error of ours, or arrays of the declared shapes and dtypes."""
    data = bytearray(WRITTEN)
    data[place] = byte
    for damaged in (bytes(data), bytes(data[:end])):
        try:
            arrays = weights(tmp_path_factory.getbasetemp(), damaged, *DECLARED)
        except ex.FileError:
            continue
        for reference in DECLARED:
            array = arrays[reference.key]
            assert (array.shape, array.dtype.name) == (reference.shape, reference.dtype)


@pytest.mark.parametrize("way", ["parts", "position"])
def test_reading_does_not_use_the_position_of_the_file(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads and forked processes share it, so bytes are read by offset or from a newly opened file."""
    path = tmp_path / "w.safetensors"
    path.write_bytes(WRITTEN)
    weights = SafetensorsWeights(path, DECLARED)
    if way == "parts":
        monkeypatch.setattr("explorer.core.files.kept_file._MAX_READ", 5)
    else:
        monkeypatch.delattr(os, "preadv")
    for _ in range(2):
        np.testing.assert_array_equal(weights["fc.bias"], [1, -2, 3])
        np.testing.assert_array_equal(weights["conv.weight"], np.arange(6).reshape(2, 3))
