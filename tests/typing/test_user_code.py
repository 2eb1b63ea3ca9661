"""User code that type checkers accept, and mistakes in it that they reject."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
FILES = ("user_code.py", "wrong_code.py")


@pytest.fixture(scope="module")
def errors() -> dict[str, set[tuple[int, str]]]:
    """mypy's errors by file, as line numbers and error codes."""
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml"]
    command += [str(FOLDER / name) for name in FILES]
    report = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600).stdout
    assert "checked 2 source files" in report
    found: dict[str, set[tuple[int, str]]] = {name: set() for name in FILES}
    for name, line, code in re.findall(r"(\w+\.py):(\d+): error: .*\[([a-z-]+)\]", report):
        found[name].add((int(line), code))
    return found


@pytest.mark.spec("H-4", headline=True)
def test_type_checkers_accept_user_code(errors: dict[str, set[tuple[int, str]]]) -> None:
    """Type operations, views, plans, nets, and options with their values, as mypy and Pyright check."""
    assert errors["user_code.py"] == set()


@pytest.mark.spec("H-4")
def test_type_checkers_reject_misspelt_options_and_values(errors: dict[str, set[tuple[int, str]]]) -> None:
    lines = (FOLDER / "wrong_code.py").read_text(encoding="utf-8").splitlines()
    expected = {(number, line.split("  # ")[1]) for number, line in enumerate(lines, 1) if "  # " in line}
    assert errors["wrong_code.py"] == expected
