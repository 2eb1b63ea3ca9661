"""The reader of ``.bin`` files: exact weights, and damage that is noticed and costs no memory."""

from __future__ import annotations

import contextlib
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.core.errors import ExplorerError, FileError, UnknownNameError
from explorer.formats.pnnx.bin_weights import StoredWeights
from explorer.formats.pnnx.param_values import ITEMSIZE
from explorer.net.definition.definition import WeightReference

KERNEL = np.arange(24, dtype=np.float32).reshape(4, 3, 2) / 7
BIAS = np.array([1, -2, 3], np.int64)
DECLARED = (WeightReference("conv.weight", (4, 3, 2), "float32"), WeightReference("fc.bias", (3,), "int64"))


def pack(path: Path, entries: dict[str, bytes], method: int = zipfile.ZIP_STORED, zip64: bool = False) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in entries.items():
            with archive.open(name, "w", force_zip64=zip64) as entry:
                entry.write(data)
    return path


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return pack(tmp_path / "m.bin", {"conv.weight": KERNEL.tobytes(), "fc.bias": BIAS.tobytes()})


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("zip64", [False, True])
def test_stored_deflated_and_zip64_entries_are_read(tmp_path: Path, method: int, zip64: bool) -> None:
    entries = {"conv.weight": KERNEL.tobytes(), "fc.bias": BIAS.tobytes(), "more": b"unused"}
    weights = StoredWeights(pack(tmp_path / "m.bin", entries, method, zip64), DECLARED)
    assert list(weights) == ["conv.weight", "fc.bias"]
    assert "more" not in weights
    np.testing.assert_array_equal(weights["conv.weight"], KERNEL, strict=True)
    np.testing.assert_array_equal(weights["fc.bias"], BIAS, strict=True)
    assert not weights["fc.bias"].flags.writeable
    assert weights["conv.weight"].flags.aligned


@given(st.sampled_from(sorted(set(ITEMSIZE) - {"complex32", "bfloat16", "bool"})), st.binary(min_size=16, max_size=16))
def test_every_dtype_keeps_its_bits(tmp_path_factory: pytest.TempPathFactory, dtype: str, bits: bytes) -> None:
    path = pack(tmp_path_factory.mktemp("bin") / "m.bin", {"a.b": bits})
    array = StoredWeights(path, [WeightReference("a.b", (16 // ITEMSIZE[dtype],), dtype)])["a.b"]
    assert array.dtype.name == dtype
    assert array.tobytes() == bits


def test_bool_scalar_and_empty_weights(tmp_path: Path) -> None:
    path = pack(tmp_path / "m.bin", {"a.mask": b"\x00\x01\x02", "a.one": struct.pack("<d", 2.5), "a.none": b""})
    declared = [
        WeightReference("a.mask", (3,), "bool"),
        WeightReference("a.one", (), "float64"),
        WeightReference("a.none", (0, 4), "float32"),
    ]
    weights = StoredWeights(path, declared)
    assert weights["a.mask"].tolist() == [False, True, True]
    assert (weights["a.one"].shape, weights["a.one"].item()) == ((), 2.5)
    assert weights["a.none"].shape == (0, 4)


def test_bfloat16_is_widened_exactly(tmp_path: Path) -> None:
    bits = np.array([0x3F80, 0xC020, 0x7F80, 0x0001, 0x4049], "<u2")
    weights = StoredWeights(
        pack(tmp_path / "m.bin", {"a.w": bits.tobytes()}), [WeightReference("a.w", (5,), "bfloat16")]
    )
    expected = [1.0, -2.5, np.inf, 2.0**-133, 3.140625]
    np.testing.assert_array_equal(weights["a.w"], np.array(expected, np.float32), strict=True)


def test_complex32_raises_an_error_when_it_is_read(tmp_path: Path) -> None:
    weights = StoredWeights(pack(tmp_path / "m.bin", {"a.w": bytes(8)}), [WeightReference("a.w", (2,), "complex32")])
    with pytest.raises(FileError, match="complex64"):
        weights["a.w"]


def test_all_missing_and_mismatching_weights_are_listed_together(two: Path) -> None:
    wrong = [
        WeightReference("conv.weight", (4, 3, 3), "float32"),
        *(WeightReference(f"gone.{index}", (1,), "float32") for index in range(30)),
        WeightReference("fc.bias", (3,), "int32"),
    ]
    with pytest.raises(FileError) as error:
        StoredWeights(two, wrong)
    message = str(error.value)
    assert "30 declared weights are missing" in message
    assert all(f"gone.{index}" in message for index in range(30))
    assert "'conv.weight' has 96 bytes, but float32 (4, 3, 3) needs 144" in message
    assert "'fc.bias' has 24 bytes" in message
    assert error.value.fix


def test_a_huge_declared_shape_costs_no_memory(two: Path) -> None:
    with pytest.raises(FileError, match="needs 4000000000000000000"):
        StoredWeights(two, [WeightReference("conv.weight", (10**9, 10**9), "float32")])


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_directory_larger_than_its_file_costs_no_memory(tmp_path: Path, method: int) -> None:
    path = pack(tmp_path / "m.bin", {"a.w": bytes(100)}, method)
    data = bytearray(path.read_bytes())
    directory = data.index(b"PK\x01\x02")
    claimed = 1 << 31
    data[directory + 24 : directory + 28] = struct.pack("<I", claimed)
    if method == zipfile.ZIP_STORED:
        data[directory + 20 : directory + 24] = struct.pack("<I", claimed)
    path.write_bytes(data)
    with pytest.raises(FileError, match="states 2147483648 bytes"):
        StoredWeights(path, [WeightReference("a.w", (claimed,), "uint8")])


def test_other_compressions_raise_an_error(tmp_path: Path) -> None:
    path = pack(tmp_path / "m.bin", {"a.w": bytes(100)}, zipfile.ZIP_BZIP2)
    with pytest.raises(FileError, match="only stored and deflated"):
        StoredWeights(path, [WeightReference("a.w", (100,), "uint8")])


@pytest.mark.parametrize("data", [b"", b"7767517\n", bytes(1000)])
def test_other_than_a_zip_raises_an_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "m.bin"
    path.write_bytes(data)
    with pytest.raises(FileError, match="not a readable zip"):
        StoredWeights(path, DECLARED)


def test_two_entries_at_one_offset_raise_an_error(tmp_path: Path) -> None:
    """Python would read one as the other, and some versions only warn."""
    path = tmp_path / "m.bin"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {"conv.weight": KERNEL, "fc.bias": BIAS}.items():
            archive.writestr(name, data.tobytes())
        archive.filelist[1].header_offset = archive.filelist[0].header_offset
    with pytest.raises(FileError, match=r"'conv\.weight' and 'fc\.bias' begin at the same byte"):
        StoredWeights(path, DECLARED)


def test_a_truncated_file_raises_an_error(two: Path, tmp_path: Path) -> None:
    data = two.read_bytes()
    cut = tmp_path / "cut.bin"
    for length in range(len(data)):
        cut.write_bytes(data[:length])
        with pytest.raises(FileError):
            StoredWeights(cut, DECLARED)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_changed_byte_is_detected_or_harmless(tmp_path: Path, method: int) -> None:
    path = pack(tmp_path / "m.bin", {"conv.weight": KERNEL.tobytes(), "fc.bias": BIAS.tobytes()}, method)
    data = path.read_bytes()
    noticed = 0
    for place in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            path.write_bytes(data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :])
            noticed += 1
            with contextlib.suppress(ExplorerError), contextlib.closing(StoredWeights(path, DECLARED)) as weights:
                np.testing.assert_array_equal(weights["conv.weight"], KERNEL, strict=True)
                np.testing.assert_array_equal(weights["fc.bias"], BIAS, strict=True)
                noticed -= 1
    assert noticed > len(KERNEL.tobytes())


def test_a_changed_weight_fails_its_checksum(two: Path) -> None:
    data = two.read_bytes()
    two.write_bytes(data.replace(KERNEL.tobytes(), KERNEL[::-1].tobytes()))
    weights = StoredWeights(two, DECLARED)
    assert weights["fc.bias"].tolist() == [1, -2, 3]
    with pytest.raises(FileError, match=r"'conv.weight' cannot be read.*CRC"):
        weights["conv.weight"]


def test_unknown_names_list_the_known_ones(two: Path) -> None:
    weights = StoredWeights(two, DECLARED)
    with pytest.raises(UnknownNameError, match=r"conv\.weight"):
        weights["conv.weigth"]


def test_weights_are_sent_to_another_process_as_their_path(two: Path) -> None:
    copy = pickle.loads(pickle.dumps(StoredWeights(two, DECLARED)))
    np.testing.assert_array_equal(copy["fc.bias"], BIAS)
