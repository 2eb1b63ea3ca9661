"""Every error about user input contains a fix; every error about a file names its operator."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import explorer

ROOT = Path(explorer.__file__).parent
ERRORS = {"OperandError", "DeclarationError", "StateError"}
OF_FILES = {"formats", "net"}
"""packages whose errors are about a net's definition, where the rule itself is the fix"""


def without_fix() -> Iterator[str]:
    """Yield the locations of errors without a fix."""
    for path in sorted(ROOT.rglob("*.py")):
        if path.relative_to(ROOT).parts[0] not in OF_FILES:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                match node:
                    case ast.Raise(exc=ast.Call(func=ast.Name(id=name), keywords=keywords)) if name in ERRORS:
                        if all(keyword.arg not in ("fix", None) for keyword in keywords):
                            yield f"{path.relative_to(ROOT)}:{node.lineno}"


def test_errors_about_user_input_contain_a_fix() -> None:
    assert [*without_fix()] == []
