"""Run the notebooks in place and strip them, without what names this machine's kernel: ``make notebooks``."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from explorer.cli.support.notebook_strip import WIDGET, strip_notebook

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def execute(path: Path) -> None:
    """Run one notebook from the top in a new kernel, and write it."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=300,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": path.parent}},
    ).execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET, None)  # a widget without a picture keeps its text output
    strip_notebook(notebook)
    without_machine(notebook)
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


def without_machine(notebook: nbformat.NotebookNode) -> None:
    """Remove the version of the interpreter and the display name of its kernel."""
    notebook.metadata.pop("language_info", None)
    if "kernelspec" in notebook.metadata:
        notebook.metadata.kernelspec.display_name = "Python 3"


def main(names: list[str]) -> None:
    """Run the given notebooks, or all of them."""
    for path in [Path(name) for name in names] or sorted(NOTEBOOKS.glob("*.ipynb")):
        sys.stdout.write(f"{path.name}\n")
        execute(path)


if __name__ == "__main__":
    main(sys.argv[1:])
