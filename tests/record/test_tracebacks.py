"""Tracebacks in notebooks contain the user's frames and the message, and none of this package's frames."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spec("H-5")

CELLS = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance(colors="NoColor")
for cell in {cells!r}:
    shell.run_cell(cell)
"""
BEGIN = """import numpy as np, explorer as ex
x = ex.tensor(np.ones((32, 64)), name="x")
w = ex.tensor(np.ones((64, 47)), name="w")
b = ex.tensor(np.ones(48), name="b")"""


def shown(cell: str) -> list[str]:
    """Return the lines that IPython prints for an error in a cell."""
    program = CELLS.format(cells=(BEGIN, cell))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).splitlines()


@pytest.mark.spec("H-5", headline=True)
@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("np.tanh(x @ w + b)", "OperandError: add of"),
        ("x.sum(axis=5)", "OperandError: sum: axis 5"),
        ("ex.evaluate(ex.grad(x, [w]))", "OperandError"),
        ("ex.EvalPlan(without=['nothing'])", "UnknownNameError"),
        ("ex.open('missing.onnx')", "missing.onnx"),
    ],
)
def test_a_traceback_has_at_most_fifteen_lines_and_no_frame_of_the_package(cell: str, message: str) -> None:
    """Show at most 15 lines for an error in a cell: the user's frames and the message, but no frame of the package."""
    lines = shown(cell)
    assert len(lines) <= 15
    assert any(message in line for line in lines)
    assert f"----> 1 {cell}" in lines
    assert not any("explorer/" in line for line in lines)


def test_frames_of_the_user_are_all_shown() -> None:
    """An error in a traced function shows its call and the line in the function, each with its cell."""
    lines = shown("def affine(v):\n    return v @ w + b\n\nex.function(affine)(x)")
    assert "----> 4 ex.function(affine)(x)" in lines
    assert "----> 2     return v @ w + b" in lines
    assert len(lines) <= 20


LIBRARY = """import tempfile, sys, sysconfig, types
path = sysconfig.get_paths()["purelib"] + "/library.py"
source = "def call(f, x, depth=40):\\n    return call(f, x, depth - 1) if depth else f(x)"
module = types.ModuleType("library")
exec(compile(source, path, "exec"), module.__dict__)
class Net:
    def forward(self, x):
        return self.inner(x)
    def inner(self, x):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied\\n\\n" + "from user code\\n" * 300)
def open_net(net, x):
    try:
        return module.call(lambda x: module.call(net.forward, x), x)
    except RuntimeError as error:
        reason = f"RuntimeError: {str(error).splitlines()[0]}"
        raise ex.OperandError(f"Net does not run: {reason}", rule="it must run", fix="correct the shapes") from error"""


def test_a_cause_inside_another_library_adds_only_the_users_innermost_line() -> None:
    """The message of the cause, of hundreds of lines, is stated by the error and not shown again."""
    lines = shown(f"{LIBRARY}\n\nopen_net(Net(), 3)")
    assert len(lines) <= 30
    assert "OperandError: Net does not run: RuntimeError: mat1 and mat2 shapes cannot be multiplied" in lines
    assert any(line.startswith("---> ") and "raise RuntimeError" in line for line in lines)
    assert not any("library.py" in line for line in lines)
    assert lines.count("from user code") == 0


def test_a_failing_test_shows_the_line_of_the_test(tmp_path: Path) -> None:
    """pytest prints the test's frame and the message, and no frame of the package."""
    (tmp_path / "test_shapes.py").write_text(
        "import explorer as ex\n\ndef test_shapes():\n    ex.tensor([[1.0, 2.0]]) + ex.tensor([1.0, 2.0, 3.0])\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shapes.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "test_shapes.py:4" in done.stdout
    assert "OperandError: add of" in done.stdout
    assert "explorer/" not in done.stdout
