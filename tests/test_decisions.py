"""Notes in assets/decisions are numbered, and cited by number."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTES = sorted((ROOT / "assets" / "decisions").glob("[0-9]*.md"))
CITATION = re.compile(r"assets/decisions/(\d{4})")


def test_notes_are_numbered_consecutively() -> None:
    """The number in the file name is the heading's, and each number occurs once."""
    assert [int(note.name[:4]) for note in NOTES] == [*range(1, len(NOTES) + 1)]
    for note in NOTES:
        assert note.read_text(encoding="utf-8").startswith(f"# {int(note.name[:4])}. "), note.name


def test_a_cited_note_exists() -> None:
    numbers = {note.name[:4] for note in NOTES}
    cited = [
        (path.name, number)
        for path in (ROOT / "explorer").rglob("*.py")
        for number in CITATION.findall(path.read_text(encoding="utf-8"))
    ]
    assert cited
    assert not [(name, number) for name, number in cited if number not in numbers]
