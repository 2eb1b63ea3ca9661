"""The files that are damaged: the project's small models, and hostile ones found before."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[4]
ASSETS = ROOT / "assets"
HOSTILE = ROOT / "tests" / "soak" / "corpus"
MANY = "many/"
"""where a name begins so, the file is one of hundreds: it is damaged, and no case by itself"""
LARGEST = 40_000
"""bytes of a file that is damaged: larger ones take long, and hold nothing that smaller ones lack"""


def hostile(*endings: str) -> list[Path]:
    """The hostile files of these endings."""
    return sorted(path for path in HOSTILE.iterdir() if path.name.endswith(endings))


def small_models(ending: str) -> list[Path]:
    """The models among the assets that are small."""
    results = [*ASSETS.glob(f"*{ending}"), *(ASSETS / "models").rglob(f"*{ending}")]
    return sorted(path for path in results if path.stat().st_size <= LARGEST)
