"""Every ONNX operator type alone, in the cases of the standard's own suite; tests/soak has all of its cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.formats.onnx.operators import TABLE
from tests.formats.onnx.standard import DISPUTED, cases, outcome

LEAST = 806
"""cases that must be right; more is better, and then this is raised"""
ELSEWHERE = {"Loop"}
"""types whose cases of one operator stack outputs of a number of turns that is an input: operators/test_control.py"""


@pytest.mark.spec("I-9", "C-15")
def test_every_operator_type_gives_what_the_standard_says(tmp_path: Path) -> None:
    """Models of one operator: each type is right in a case at least, and none gives what another form means."""
    right, wrong = [], []
    for case in cases():
        operators = case.model.graph.node
        if len(operators) > 1 or case.model.functions or operators[0].op_type not in TABLE:
            continue
        kind, reason = outcome(case, tmp_path / "m.onnx")
        if kind == "right":
            right.append(operators[0].op_type)
        elif kind == "wrong" and case.name not in DISPUTED:
            wrong.append((case.name, reason))
    assert wrong == []
    assert set(TABLE.types()) - set(right) == ELSEWHERE
    assert len(right) >= LEAST
