"""Docstrings of the public interface show an example, and every example in the package gives what it shows."""

from __future__ import annotations

import inspect
import os
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
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


@pytest.mark.parametrize("name", sorted({*dir(ex.ops)}))
def test_help_of_an_operation_has_its_facts_and_an_example(name: str) -> None:
    """``ex.tanh`` and ``ex.softmax`` alike, an operation and a function that records one or more."""
    text = pydoc.plain(pydoc.render_doc(getattr(ex, name)))
    assert name in text.split("\n", 3)[2]
    assert re.search(r"^ *>>> .*|Example: see ``ex\.\w+``", text, re.M)
    assert "fails: " not in text
    if name in registry.operations:
        assert [row for row in ("Shapes", "Dtypes", "Gradient", "Laws") if f"    {row}  " not in text] == []
        assert f"ex.check(ex.{name})" in text or f"ex.check(ex.operation('{name}'))" in text
    else:
        assert "records other operations" in text
    assert max(map(len, (inspect.getdoc(getattr(ex, name)) or "").splitlines())) <= 200


def test_the_facts_are_those_of_the_class() -> None:
    class Cubed(ex.Elementwise):
        """x³."""

        name = "cubed_on_a_page"
        examples = (ex.Example(ex.real(2, 3)),)

        def kernel(self, out: Any, x: Any) -> Any:
            return np.power(x, 3, out=out)

        def gradient(self, upstream: Any, result: Any, x: Any) -> Any:
            raise ZeroDivisionError("in the gradient")

    operation: Any = ex.operation("cubed_on_a_page")()
    text = operation.__doc__
    for known in (registry.operations, registry.functions):
        del known["cubed_on_a_page"]
    assert text.splitlines() == [
        "cubed_on_a_page(x) → expression",
        "",
        "x³.",
        "",
        "Shapes    any; the result has the operand's",
        "Dtypes    bool, int64, float16, float32, float64, complex128 stay",
        "Gradient  fails: ZeroDivisionError: in the gradient",
        "Laws      its type, gradient and batches; elementwise. ex.check(ex.cubed_on_a_page) tries them.",
        "",
        ">>> ex.evaluate(ex.cubed_on_a_page(np.array([-1., 0., 1.])))",
        "array([-1.,  0.,  1.])",
    ]
    assert Cubed.__doc__ == "x³."
    assert "of x: g * (1 - square(y));" in (ex.tanh.__doc__ or "")
    assert "of b: -g * y / b;" in (ex.divide.__doc__ or "")


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
