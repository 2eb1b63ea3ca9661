"""README.md is true: its lines run, its rules lead somewhere, its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_lines_run(tmp_path: Path) -> None:
    """The Python lines of the README run, in their order, as they are printed.

    They run in a process of their own, since they declare operations whose names other tests declare, too.
    """
    blocks = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 2
    (tmp_path / "readme.py").write_text("\n".join(blocks), encoding="utf-8")
    ended = subprocess.run([sys.executable, "readme.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    "rule", sorted(set(re.findall(r'\]\((?!https?:|#explorer:)([^)]+)\)|(?:src|srcset)="([^"]+)"', TEXT)))
)
def test_a_link_leads_somewhere(rule: tuple[str, str]) -> None:
    assert (ROOT / "".join(rule)).exists()


def test_the_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z]+)", TEXT, re.MULTILINE))
    assert {"lab", "test"} <= named <= targets
