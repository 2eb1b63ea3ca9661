"""The cases that the onnx package tests backends with: every operator, in every form that the standard names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.formats.onnx.standard import DISPUTED, cases, file_cases, outcome

pytestmark = pytest.mark.soak

LEAST = 1886
"""cases that must be right; more is better, and then this is raised"""


def test_the_standards_own_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every case of the standard's own suite is right to its tolerance, or refused by name: none is wrong."""
    found = [
        (case.name, *outcome(case, tmp_path / "m.onnx")) for cases_of in (cases, file_cases) for case in cases_of()
    ]
    counts = Counter(kind for _, kind, _ in found)
    unknown = Counter(reason for _, kind, reason in found if kind == "unknown")
    with capsys.disabled():
        print(f"\n{len(found)} cases: " + ", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
        print("unknown: " + ", ".join(f"{name} {count}" for name, count in unknown.most_common()))
    wrong = [entry for entry in found if entry[1] == "wrong"]
    assert [entry for entry in wrong if entry[0] not in DISPUTED] == []
    assert len(wrong) == len(DISPUTED)
    assert all(reason for _, kind, reason in found if kind == "refused")
    assert counts["right"] >= LEAST
