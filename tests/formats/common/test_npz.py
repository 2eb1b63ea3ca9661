"""Weights in a .npz file: each must match its declaration, and be no larger than its file."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.formats.common.npz import NpzWeights, read_array
from explorer.net.definition.definition import WeightReference

HELD = np.arange(6, dtype=np.float32).reshape(2, 3)


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array)
    return buffer.getvalue()


def weights(folder: Path, data: bytes, key: str = "w") -> NpzWeights:
    """Return the weights of a file with one entry; one float32 array of 2×3 is declared."""
    path = folder / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{key}.npy", data)
    return NpzWeights(path, [WeightReference("w", (2, 3), "float32")])


@pytest.mark.spec("I-15")
@pytest.mark.parametrize("stored", [HELD, HELD.astype(">f4"), np.asfortranarray(HELD)])
def test_an_array_of_any_layout_and_byte_order_is_read(stored: Any, tmp_path: Path) -> None:
    """It is returned in native byte order and row-major layout, and is read-only."""
    result = weights(tmp_path, npy(stored))["w"]
    np.testing.assert_array_equal(result, HELD)
    assert result.dtype == np.dtype(np.float32)
    assert result.dtype.isnative
    assert result.flags.c_contiguous
    assert not result.flags.writeable


@pytest.mark.spec("I-15")
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (npy(HELD.astype(np.float64)), r"is float64 \(2, 3\), but declared as float32"),
        (npy(HELD.astype(np.float16)), "is float16"),
        (npy(HELD.astype(np.int32)), "is int32"),
        (npy(HELD.T.copy()), r"is float32 \(3, 2\)"),
        (npy(HELD.reshape(-1)), r"is float32 \(6,\)"),
        (npy(HELD)[:-1], "has [0-9]+ bytes, but its header requires"),
        (npy(HELD) + b"\0", "has [0-9]+ bytes, but its header requires"),
        (b"no array", "cannot be read"),
    ],
)
def test_a_mismatching_array_raises_an_error_when_the_net_is_opened(data: bytes, said: str, tmp_path: Path) -> None:
    """Another dtype, shape or size than declared is rejected before any element is read."""
    with pytest.raises(ex.FileError, match=f"weight 'w' {said}"):
        weights(tmp_path, data)


def test_the_error_of_a_missing_weight_contains_its_name(tmp_path: Path) -> None:
    with pytest.raises(ex.FileError, match="weight 'w' is missing"):
        weights(tmp_path, npy(HELD), key="v")


def test_an_array_larger_than_its_file_raises_an_error() -> None:
    """The size in the header is compared with the file's size before memory is allocated."""
    data = npy(HELD)
    np.testing.assert_array_equal(read_array(io.BytesIO(data), "w", len(data)), HELD)
    with pytest.raises(ValueError, match=f"w has {len(data) - 1} bytes, but its header requires {len(data)}"):
        read_array(io.BytesIO(data), "w", len(data) - 1)
