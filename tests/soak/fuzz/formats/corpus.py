"""Corpus: the project's small models, and hostile files found earlier."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[4]
ASSETS = ROOT / "assets"
HOSTILE = ROOT / "tests" / "soak" / "corpus"
MANY = "many/"
"""prefix of files that occur by the hundred: they are damaged, but are no cases themselves"""
LARGEST = 40_000
"""maximum bytes of a file to damage: larger files take long and contain nothing that smaller ones lack"""


def hostile(*extensions: str) -> list[Path]:
    """Return the hostile files with these extensions."""
    return sorted(path for path in HOSTILE.iterdir() if path.name.endswith(extensions))


def small_models(extension: str) -> list[Path]:
    """Return the small models among the assets."""
    results = [*ASSETS.glob(f"*{extension}"), *(ASSETS / "models").rglob(f"*{extension}")]
    return sorted(path for path in results if path.stat().st_size <= LARGEST)
