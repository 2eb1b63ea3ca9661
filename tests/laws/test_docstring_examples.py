"""Docstrings of the public interface show an example, and every example in the package gives what it shows."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import explorer as ex
from explorer.core import registry

ROOT = Path(__file__).parents[2]
RUNNER = ROOT / "tests" / "support" / "docstring_examples.py"
ROOMS = ("__init__", "api", "core", "data", "formats", "grad", "layers", "net", "ops", "plan", "record", "run")
"""packages and modules whose names in ``ex`` need an example"""


def modules_with_examples() -> list[str]:
    """Modules of the package in whose sources a prompt stands."""
    files = [path for path in (ROOT / "explorer").rglob("*.py") if re.search(r"^ *>>> ", path.read_text(), re.M)]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files]
    return sorted([name.removesuffix(".__init__") for name in names])


def needs_example(name: str) -> bool:
    """Whether a public name is a function or class of these packages; an error is shown where it is raised."""
    value: Any = getattr(ex, name)
    if not (inspect.isfunction(value) or inspect.isclass(value)) or value.__module__.split(".")[0] != "explorer":
        return False
    is_error = inspect.isclass(value) and issubclass(value, BaseException)
    return [*value.__module__.split("."), "__init__"][1] in ROOMS and not is_error


@pytest.mark.parametrize("name", sorted(filter(needs_example, {*dir(ex)} - {*registry.functions})))
def test_a_public_docstring_shows_an_example(name: str) -> None:
    """It has a prompt, or names the docstring that shows one."""
    text = inspect.getdoc(getattr(ex, name)) or ""
    reference = re.search(r"Example: see ``ex\.(\w+)``\.", text)
    assert ">>> " in (inspect.getdoc(getattr(ex, reference[1])) or "" if reference else text)


def test_every_example_gives_what_it_shows(tmp_path: Path) -> None:
    modules = modules_with_examples()
    assert len(modules) > 30
    ended = subprocess.run(
        [sys.executable, RUNNER, *modules], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_wrong_example_is_found(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text('"""Show a sum.\n\n>>> float(ex.tensor([1.0, 2.0]).sum())\n4.0\n"""\n')
    ended = subprocess.run(
        [sys.executable, RUNNER, "wrong"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 1
    assert "1 examples, 1 failed" in ended.stdout
