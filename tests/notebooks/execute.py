"""Run the notebooks in place and keep what is the same on every machine: ``make notebooks``."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from explorer.cli.support.notebook_strip import WIDGET

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def strip(notebook: nbformat.NotebookNode) -> None:
    """Take out what differs from run to run: widget state and ids, times, the interpreter's version."""
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for cell in notebook.cells:
        cell.metadata = {"tags": cell.metadata["tags"]} if "tags" in cell.metadata else {}
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET, None)  # of progress bars, too, which have no picture
        if "outputs" in cell:
            # A progress bar that has gone leaves an empty output, on machines that were slow enough to show it.
            cell.outputs = [output for output in cell.outputs if output.output_type != "display_data" or output.data]


def execute(path: Path) -> None:
    """Run one notebook from the top, in a new kernel, and write it back."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=300,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": path.parent}},
    ).execute()
    strip(notebook)
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


def main(names: list[str]) -> None:
    """Run the notebooks that are named, else all of them."""
    for path in [Path(name) for name in names] or sorted(NOTEBOOKS.glob("*.ipynb")):
        sys.stdout.write(f"{path.name}\n")
        execute(path)


if __name__ == "__main__":
    main(sys.argv[1:])
