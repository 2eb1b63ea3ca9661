"""ONNX's own backend tests, which cover every operator in every form of the standard."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from explorer.formats.onnx.operators.base.delegated import Delegated
from tests.formats.onnx.standard import DISPUTED, cases, file_cases, outcome

pytestmark = pytest.mark.soak

LEAST, LEAST_OWN = 2008, 1900
"""minimum numbers of correct cases, and of those that delegate nothing; raise them after improvements"""


def test_the_cases_of_the_onnx_suite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every case is correct within its tolerance or rejected by the operator's name; none is wrong."""
    delegated: list[str] = []
    run = Delegated.run

    def counted(self: Delegated, *arguments: Any) -> Any:
        delegated.append(self.kind)
        return run(self, *arguments)

    monkeypatch.setattr(Delegated, "run", counted)
    results, own = [], 0
    for case in chain(cases(), file_cases()):
        delegated.clear()
        results.append((case.name, *outcome(case, tmp_path / "m.onnx")))
        own += results[-1][1] == "right" and not delegated
    counts = Counter(kind for _, kind, _ in results)
    unknown = Counter(reason for _, kind, reason in results if kind == "unknown")
    with capsys.disabled():
        print(f"\n{len(results)} cases: " + ", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
        print(f"{own} of the right ones on explorer's own operations")
        print("unknown: " + ", ".join(f"{name} {count}" for name, count in unknown.most_common()))
    wrong = [entry for entry in results if entry[1] == "wrong"]
    assert [entry for entry in wrong if entry[0] not in DISPUTED] == []
    assert len(wrong) == len(DISPUTED)
    assert all(reason for _, kind, reason in results if kind == "refused")
    assert counts["right"] >= LEAST
    assert own >= LEAST_OWN
