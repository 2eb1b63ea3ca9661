"""Hostile names in all text outputs: no terminal command, no forged line, no spreadsheet formula."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

import explorer as ex
from explorer.core.errors import ExplorerError
from explorer.testing.notebook_failure import failure_text
from tests.support.hostile_names import NAMES, hostile_plan


def assert_harmless(text: str) -> None:
    """Assert that a text contains no terminal command, no forged line, and no line that begins like a formula."""
    for line in text.split("\n"):
        assert not [letter for letter in line if unicodedata.category(letter) == "Cc" and letter != "\t"], line
        assert "\u202e" not in line
        assert not line.startswith(("fake:", "and one more", "=", "+", "@")), line


@pytest.mark.parametrize("extension", [".txt", ".dot", ".svg", ".mmd", ".graphml"])
def test_files_of_hostile_names_are_harmless(extension: str, tmp_path: Path) -> None:
    path = tmp_path / f"plan{extension}"
    hostile_plan().prepare().explore().save(path)
    assert_harmless(path.read_text(encoding="utf-8"))


def test_printed_texts_of_hostile_names_are_harmless() -> None:
    """Explanations, reports, comparisons and reprs show names escaped, each on one line."""
    plan, other = hostile_plan(record="values").eval(), hostile_plan(without=("fuse",)).prepare()
    recording = plan.recording
    texts = [str(plan.explain()), repr(plan), repr(plan.explore()), str(plan.compare(other)), repr(recording)]
    texts += [repr(ex.tensor([1.0], name=name)) for name in NAMES]
    for text in texts:
        assert_harmless(text)


def test_no_spreadsheet_formula_is_written(tmp_path: Path) -> None:
    """Explorer writes no CSV, so a name such as =cmd|… is never in a spreadsheet."""
    for extension in (".csv", ".tsv", ".xlsx"):
        with pytest.raises(ExplorerError, match=r"\.html"):
            hostile_plan().prepare().explore().save(tmp_path / f"plan{extension}")


def test_a_failed_cell_of_hostile_names_is_reported_harmlessly() -> None:
    """The plugin's report about a notebook cell escapes the names in differing lines."""
    outputs = [
        {"text/plain": [str(plan.prepare().explain())]} for plan in (hostile_plan(), hostile_plan(without=("fuse",)))
    ]
    outputs[0]["text/\x1b[2J\nfake: line"] = ["x"]
    report = failure_text(1, f"# {NAMES[4]}", *outputs, {})
    assert "fuse" in report
    assert_harmless(report)
