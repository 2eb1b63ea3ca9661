"""A notebook under nbval whose program changed: the report lists the different decisions."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from explorer.testing.notebook_failure import failure_text

pytest_plugins = ["pytester"]

SETUP = "import numpy as np\nimport explorer as ex\nx = ex.tensor(np.ones((8, 8), 'float32'), name='x')"
PROGRAM = "# NBVAL_CHECK_OUTPUT\nex.explore(ex.tanh(x + 1) * 2, run=False)"
PRINTED = (
    "# NBVAL_CHECK_OUTPUT\nplan = ex.EvalPlan()\nh = plan.register(ex.exp(x) - 1)\nprint(plan.prepare().explain())"
)
NUMBER = "# NBVAL_CHECK_OUTPUT\n1 + 1"
ANOTHER = "# NBVAL_CHECK_OUTPUT\nex.explore(ex.exp(x), run=False)"
SHARED = "y = ex.tanh(x + 1)\nex.explore([y * 2, y - 3], run=False)"
"""two operations read y, so that it is stored"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a notebook that was run and saved."""
    cells = [nbformat.v4.new_code_cell(source) for source in (SETUP, PROGRAM, PRINTED, NUMBER, ANOTHER)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, kernel_name="python3", store_widget_state=False).execute()
    assert {"image/svg+xml", "text/plain"} <= set(notebook.cells[1].outputs[0].data)
    return nbformat.writes(notebook)


CHANGES = {
    "program": {PROGRAM: f"# NBVAL_CHECK_OUTPUT\n{SHARED}"},
    "printed": {
        PRINTED: PRINTED.replace("ex.exp(x) - 1", "ex.exp(ex.log(x + 1))"),
        NUMBER: NUMBER.replace("1 + 1", "1 + 2"),
    },
    "raising": {ANOTHER: "print(plan_of_nobody)"},
}
"""name → changed sources of cells"""


def reports(folder: Path, stored: str, names: Sequence[str], *options: str) -> dict[str, str]:
    """Return pytest's reports for a notebook with changed sources of cells, by name."""
    notebook = nbformat.reads(stored, as_version=4)
    shown = {}
    for number, cell in enumerate(notebook.cells):
        for name in names:
            if cell.source in CHANGES[name]:
                shown[f"{number}"], cell.source = name, CHANGES[name][cell.source]
    nbformat.write(notebook, folder / "changed.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval-current-env", "-p", "no:cacheprovider", *options]
    message = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout
    assert re.search(rf"^=+ {len(shown)} failed, {len(notebook.cells) - len(shown)} passed in ", message, re.M), message
    failures = message.partition(" FAILURES =")[2].partition(" short test summary info =")[0]
    cells = re.split(r"^_+ (?:\w+[/\\])*changed\.ipynb::Cell (\d+) _+$", failures, flags=re.M)
    texts = dict.fromkeys(names, "")
    for number, text in zip(cells[1::2], cells[2::2], strict=True):
        texts[shown[number]] += text
    return texts


@pytest.fixture(scope="module")
def strict(stored: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return reports(tmp_path_factory.mktemp("strict"), stored, list(CHANGES), "--nbval")


@pytest.fixture(scope="module")
def lax(stored: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the reports of a pytest-xdist worker, which sends them to the main process."""
    return reports(tmp_path_factory.mktemp("lax"), stored, ["program"], "--nbval-lax", "-n", "1")


@pytest.mark.spec("V-22", headline=True)
@pytest.mark.parametrize("session", ["strict", pytest.param("lax", marks=pytest.mark.soak)])
def test_a_changed_program_fails_with_the_different_decisions(request: pytest.FixtureRequest, session: str) -> None:
    """List the decisions that differ, without a picture, when a notebook under nbval fails."""
    text = request.getfixturevalue(session)["program"]
    assert "Cell 1: the outputs differ from those stored in the notebook" in text
    assert re.search(r"^fuse · add 1, line 2.*: still ✓ ElementwiseChain \[chain\]; was: .*; now: ", text, re.M)
    assert re.search(r"^fuse · .*: there was none, now ✗ ElementwiseChain \[other_consumers\]: ", text, re.M)
    assert "image/svg+xml differs too" in text
    assert "<svg" not in text
    assert len(text.splitlines()) < 50


@pytest.mark.spec("V-22")
def test_printed_output_and_a_cell_without_a_plan(strict: dict[str, str]) -> None:
    """Printed output is compared like views, and other cells keep nbval's report."""
    text = strict["printed"]
    assert re.search(r"^simplify · .*: there was none, now [✓✗] ExpOfLog \[\w+\]: ", text, re.M)
    assert "mismatch 'text/plain'" in text


@pytest.mark.spec("V-22")
def test_a_cell_that_raises_keeps_its_traceback(strict: dict[str, str]) -> None:
    text = strict["raising"]
    assert "NameError" in text
    assert "differ from those stored" not in text


def test_a_session_without_plans_does_not_import_the_package(pytester: pytest.Pytester) -> None:
    """The plugin costs nothing for sessions without outputs of explorer."""
    pytester.makepyfile(
        "import sys\ndef test_it():\n"
        "    assert 'explorer.pytest_plugin' in sys.modules and 'explorer.core' not in sys.modules"
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
    code = "import sys, explorer, explorer.testing; assert 'pytest' not in sys.modules"
    assert pytester.run(sys.executable, "-c", code).ret == 0


def test_equal_decisions_with_another_picture() -> None:
    text = failure_text(3, "x\n", {"image/svg+xml": ["<svg/>"]}, {"image/svg+xml": ["<svg></svg>"], "stdout": ["a"]})
    assert "all decisions are the same as in the stored outputs" in text
    assert "image/svg+xml differs too" in text
    assert "stdout: 0 stored, 1 computed" in text
    assert "<svg" not in text


def test_the_plugin_is_an_entry_point_of_the_wheel() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points.pytest11]\nexplorer = "explorer.pytest_plugin"' in text


@pytest.mark.spec("V-22")
def test_equal_differences_in_two_cells_are_reported_once() -> None:
    """A picture and printed output of one plan differ in the same decisions: the later report refers to the earlier
    one."""
    before, after = (
        {"stdout": [f"fuse {mark} tanh · Rule: {words} [code]\n"]} for mark, words in (("✓", "fused"), ("✗", "apart"))
    )
    reported: dict[tuple[str, ...], int] = {}
    first, again = (failure_text(cell, "x\n", before, after, reported) for cell in (2, 5))
    assert "now ✗ Rule" in first
    assert again.startswith("Cell 5: ")
    assert "the same decisions differ as in cell 2" in again
    assert "Rule" not in again
    other = failure_text(6, "x\n", after, before, reported)
    assert "now ✓ Rule" in other
