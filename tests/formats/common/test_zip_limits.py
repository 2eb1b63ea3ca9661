"""Zips of weights: claimed sizes of entries, and zips that are not closed explicitly."""

from __future__ import annotations

import gc
import os
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

from explorer.core.memory_budget import budget
from explorer.formats.common.zip_limits import Archive, entry_fault, memory_fault


@pytest.mark.spec("I-1")
def test_a_zip_in_an_unreferenced_cycle_is_closed_without_a_warning(tmp_path: Path) -> None:
    """The garbage collector finalizes a cycle in list order, here the file before the zip."""
    path = tmp_path / "weights.zip"
    with zipfile.ZipFile(path, "w") as value:
        value.writestr("a", b"1")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        archive = Archive(path, "")
        holder: dict[str, Any] = {"archive": archive, "further": []}
        file = archive._opened
        raw = file.raw  # type: ignore[attr-defined]
        del archive
        gc.collect()  # objects referenced only by a later object move to the list's end: the zip, after its file
        holder["archive"].cycle = holder
        del file, holder
        descriptor = raw.fileno()
        del raw
        gc.collect()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    assert not [warning for warning in caught if issubclass(warning.category, ResourceWarning)]


def entry(
    size: int, stored: int, *, method: int = zipfile.ZIP_DEFLATED, at: int = 0, flags: int = 0
) -> zipfile.ZipInfo:
    """Return a directory entry with claimed unpacked and stored sizes."""
    info = zipfile.ZipInfo("w")
    info.file_size, info.compress_size, info.header_offset = size, stored, at
    info.compress_type, info.flag_bits = method, flags
    return info


@pytest.mark.parametrize(
    ("claimed", "said"),
    [
        (entry(1000, 10, at=90), ""),
        (entry(1000, 11, at=90), "cut off"),
        (entry(1000, 90, at=11), "cut off"),
        (entry(10 * 1032, 10), ""),
        (entry(10 * 1032 + 1031, 10), ""),
        (entry(11 * 1032, 10), "more than a file"),
        (entry(10, 10, method=zipfile.ZIP_STORED), ""),
        (entry(11, 10, method=zipfile.ZIP_STORED), "more than a file"),
        (entry(0, 0, at=100), ""),
        (entry(0, 0, at=101), "cut off"),
        (entry(10, 10, method=zipfile.ZIP_LZMA), "compressed by method 14"),
        (entry(10, 10, flags=1), "encrypted"),
    ],
)
def test_an_entry_claims_at_most_what_its_file_can_contain(claimed: zipfile.ZipInfo, said: str) -> None:
    """Deflate expands a byte to at most 1032; an entry must be inside its file, of 100 bytes here."""
    result = entry_fault(claimed, 100)
    assert said in result
    assert bool(said) == bool(result)


def test_all_entries_together_unpack_to_at_most_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expansions beyond the stored sizes are added up; an entry that grew when packed does not count negatively."""
    monkeypatch.setattr(budget, "file_size", 100)
    grown = entry(0, 1000)
    assert memory_fault([entry(60, 10), entry(60, 10)]) == ""
    assert "101 B more than their size" in memory_fault([entry(60, 10), entry(61, 10), grown])
    assert memory_fault([]) == ""
