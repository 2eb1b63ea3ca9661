"""Compiled kernels are tested with a C compiler and an empty cache folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from explorer.run.native import library
from explorer.run.plan_cache import cache


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Empty cache folder; plans are compiled again in each test."""
    monkeypatch.setattr(library, "cache_folder", lambda: tmp_path / "kernels")
    library.library.cache_clear()
    library._warn.cache_clear()
    cache.clear()
    yield tmp_path / "kernels"
    library.library.cache_clear()
    cache.clear()
