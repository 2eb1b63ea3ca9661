"""The prose checks in ``make check`` find faults."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import prose


def test_a_docstring_that_begins_with_a_relative_clause_is_found(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text('def given():\n    """What was given."""\n\ndef f():\n    """Give it."""\n')
    assert [*prose.relative_clauses(tmp_path)] == ["wrong.py: What was given."]


def test_a_wrong_example_is_found(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text('"""Show a sum.\n\n>>> float(ex.tensor([1.0, 2.0]).sum())\n4.0\n"""\n')
    ended = subprocess.run(
        [sys.executable, prose.RUNNER, "wrong"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 1
    assert "1 examples, 1 failed" in ended.stdout
