"""Removal of widgets that have an image, and of all data of a run except outputs, from notebooks.

Version control then shows only changes to cells and outputs. The kernel and its language are kept, because JupyterLab
would add them when it opens the notebook, which would then have unsaved changes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from explorer.core.errors import FileError
from explorer.core.files.atomic_write import write_file
from explorer.core.files.open_untrusted import content

WIDGET = "application/vnd.jupyter.widget-view+json"
_STATE = "application/vnd.jupyter.widget-state+json"
_PICTURES = ("image/svg+xml", "application/vnd.explorer+json")
_RUN_METADATA = ("execution", "trusted", "ExecuteTime")
"""cell metadata that each run changes: times, and whether the cell is trusted"""


def strip_notebook(notebook: dict[str, Any]) -> int:
    """Remove widgets that have an image, and data of the run or machine; return the number of changes."""
    return strip_widgets(notebook) + _strip_metadata(notebook) + sum(map(_strip_outputs, notebook["cells"]))


def _strip_metadata(notebook: dict[str, Any]) -> int:
    removable = [(notebook["metadata"], "trusted")]
    removable += [(cell["metadata"], name) for cell in notebook["cells"] for name in _RUN_METADATA]
    return sum(metadata.pop(name, None) is not None for metadata, name in removable)


def _strip_outputs(cell: dict[str, Any]) -> int:
    """Remove empty outputs, which progress bars leave on slow machines."""
    outputs = cell.get("outputs", [])
    kept = [output for output in outputs if output["output_type"] != "display_data" or output["data"]]
    if len(kept) < len(outputs):
        cell["outputs"] = kept
    return len(outputs) - len(kept)


def strip_widgets(notebook: dict[str, Any]) -> int:
    """Remove widgets that have an image in the same output, and their state; return the number of changes.

    Other widgets keep their state, without which they cannot be displayed. State that is not a JSON object is removed.
    """
    outputs = [output.get("data", {}) for cell in notebook["cells"] for output in cell.get("outputs", [])]
    pictured = [data for data in outputs if WIDGET in data and any(mime in data for mime in _PICTURES)]
    for data in pictured:
        del data[WIDGET]
    metadata = notebook["metadata"]
    has_state = isinstance(metadata.get("widgets"), dict) and isinstance(metadata["widgets"].get(_STATE), dict)
    if "widgets" not in metadata or (has_state and any(WIDGET in data for data in outputs)):
        return len(pictured)
    del metadata["widgets"]
    return len(pictured) + 1


def stripped(path: Path) -> tuple[int, str]:
    """Return the number of changes and the stripped text of a notebook file; raise FileError unless its format is 4."""
    data = content(path)
    try:
        notebook = json.loads(data)
        changes = strip_notebook(notebook) if notebook["nbformat"] == 4 else -1
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):  # raised for JSON with another structure
        changes = -1
    if changes < 0:
        raise FileError(
            "it is not a notebook",
            path=str(path),
            rule="a notebook must be JSON of Jupyter's format 4",
            fix="open it in JupyterLab and save it, which converts older formats",
        )
    # Formatted like nbformat, so nothing else changes; lone surrogates stay escaped.
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    return changes, text.encode("utf-8", "backslashreplace").decode()


def strip_files(paths: list[Path], *, write: bool = True) -> list[Path]:
    """Strip notebooks in place, and return the paths of the changed ones; ``write=False`` changes no file.

    Nothing is written unless all files are notebooks.
    """
    results = {path: stripped(path) for path in paths}
    changed = {path: text for path, (changes, text) in results.items() if changes}
    if write:
        for path, text in changed.items():
            write_file(path, text)
    return list(changed)
