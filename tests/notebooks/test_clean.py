"""Committed notebooks: prose first, run from the top, and equal on every machine."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
MACHINE = {
    "the address of an object": re.compile(r"\b0x[0-9a-f]{6,}\b", re.IGNORECASE),
    "a path of one machine": re.compile(
        rf"(?<![\w.:/<])/(?:home|Users|root|tmp|usr|opt|var|mnt)/\w|[A-Z]:\\\\?Users\\|{re.escape(str(ROOT))}/"
    ),
}


def _execute() -> ModuleType:
    spec = importlib.util.spec_from_file_location("execute_notebooks", Path(__file__).with_name("execute.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


execute = _execute()


def faults(notebook: nbformat.NotebookNode) -> Iterator[str]:
    """Yield the faults of a committed notebook."""
    if not notebook.cells or notebook.cells[0].cell_type != "markdown":
        yield "the first cell is no prose"
    if "widgets" in notebook.metadata:
        yield "it holds widget state"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if not code or not any(cell.outputs for cell in code):
        yield "it has no outputs"
    counts = [cell.execution_count for cell in code if cell.source.strip()]
    if counts != list(range(1, len(counts) + 1)):
        yield "it was not run from the top, once"
    for number, cell in enumerate(notebook.cells, 1):
        if "execution" in cell.metadata:
            yield f"cell {number} holds times"
        text = json.dumps([cell.source, cell.get("outputs", [])], ensure_ascii=False)
        if execute.WIDGET in text:
            yield f"cell {number} holds the id of a live widget"
        for name, pattern in MACHINE.items():
            if result := pattern.search(text):
                yield f"cell {number} holds {name}: {result[0]}"


def test_notebooks_are_clean() -> None:
    """Committed notebooks start with prose, were run from the top, and contain no widget state, times, paths or
    addresses."""
    results = [
        f"{path.name}: {fault}"
        for path in sorted(NOTEBOOKS.glob("*.ipynb"))
        for fault in faults(nbformat.read(path, as_version=4))
    ]
    assert not results, "run `make notebooks`, or mend:\n" + "\n".join(results)


@pytest.fixture
def notebook() -> nbformat.NotebookNode:
    """Return a clean notebook, to be damaged."""
    output = new_output("execute_result", data={"text/plain": "add(a, b)"}, execution_count=1)
    return new_notebook(
        cells=[new_markdown_cell("# One"), new_code_cell("a + b", execution_count=1, outputs=[output])],
    )


def test_a_clean_notebook_has_no_fault(notebook: nbformat.NotebookNode) -> None:
    assert not list(faults(notebook))


def _prose_last(notebook: nbformat.NotebookNode) -> None:
    notebook.cells.reverse()


def _state(notebook: nbformat.NotebookNode) -> None:
    notebook.metadata.widgets = {}


def _no_outputs(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[1].outputs = []


def _run_twice(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[1].execution_count = 2


def _times(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[1].metadata.execution = {"iopub.execute_input": "2026-01-01"}


def _live(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[1].outputs[0].data[execute.WIDGET] = {"model_id": "1"}


def _address(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[1].outputs[0].data["text/plain"] = "<object at 0x7f12ab34cd56>"


def _path(notebook: nbformat.NotebookNode) -> None:
    notebook.cells[1].outputs[0].data["text/plain"] = "in /home/me/net.py"


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (_prose_last, "the first cell is no prose"),
        (_state, "it holds widget state"),
        (_no_outputs, "it has no outputs"),
        (_run_twice, "it was not run from the top, once"),
        (_times, "cell 2 holds times"),
        (_live, "cell 2 holds the id of a live widget"),
        (_address, "cell 2 holds the address of an object: 0x7f12ab34cd56"),
        (_path, "cell 2 holds a path of one machine: /home/m"),
    ],
)
def test_a_fault_is_found(
    notebook: nbformat.NotebookNode, spoil: Callable[[nbformat.NotebookNode], None], fault: str
) -> None:
    spoil(notebook)
    assert list(faults(notebook)) == [fault]


def test_execute_runs_and_strips(tmp_path: Path) -> None:
    """`make notebooks` writes a clean notebook, which is equal after another run."""
    path = tmp_path / "one.ipynb"
    source = "import ipywidgets\nipywidgets.IntSlider()"
    gone = "from IPython.display import display\ndisplay({}, raw=True)"
    nbformat.write(new_notebook(cells=[new_markdown_cell("# One"), *map(new_code_cell, (source, "1 + 1", gone))]), path)
    execute.execute(path)
    first = path.read_bytes()
    written = nbformat.read(path, as_version=4)
    assert not list(faults(written))
    assert [len(cell.outputs) for cell in written.cells[1:]] == [1, 1, 0]
    execute.execute(path)
    assert path.read_bytes() == first


@pytest.mark.spec("V-20", "V-22")
def test_a_progress_bar_is_no_difference(tmp_path: Path) -> None:
    """A bar on a slow machine does not fail strict nbval for a notebook stored without one."""
    source = (
        "from explorer.view.widget.progress_bar import Bar\nbar = Bar()\nbar.show('conv1', 1, 2)\nbar.close()\n1 + 1"
    )
    output = new_output("execute_result", data={"text/plain": "2"}, execution_count=1)
    path = tmp_path / "slow.ipynb"
    cells = [new_markdown_cell("# Slow"), new_code_cell(source, execution_count=1, outputs=[output])]
    nbformat.write(new_notebook(cells=cells), path)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-n", "0"]
    done = subprocess.run(
        [*command, "--nbval", "--nbval-current-env", path], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
