"""Zips of weights that nobody closes."""

from __future__ import annotations

import gc
import os
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

from explorer.formats.archive import Archive


@pytest.mark.spec("I-1")
def test_a_zip_in_a_cycle_that_nobody_needs_is_closed_without_a_warning(tmp_path: Path) -> None:
    """The collector ends the parts of a cycle in the order of its lists, the file before the zip here."""
    path = tmp_path / "weights.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a", b"1")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        archive = Archive(path, "")
        holder: dict[str, Any] = {"archive": archive, "further": []}
        file = archive._opened
        raw = file.raw  # type: ignore[attr-defined]
        del archive
        gc.collect()  # what only a later object holds goes to the end of the collector's list: the zip, behind its file
        holder["archive"].cycle = holder
        del file, holder
        descriptor = raw.fileno()
        del raw
        gc.collect()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    assert not [warning for warning in caught if issubclass(warning.category, ResourceWarning)]
