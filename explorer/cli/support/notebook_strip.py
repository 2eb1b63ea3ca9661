"""Stripping of notebooks: widget state is removed where a picture stands, so that the picture is what readers see."""

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


def strip_widgets(notebook: dict[str, Any]) -> int:
    """Remove the widgets that have a picture beside them, and their state; return the number of changes.

    Widgets without a picture keep their state, since nothing else of them would be left to see.
    """
    outputs = [output.get("data", {}) for cell in notebook["cells"] for output in cell.get("outputs", [])]
    pictured = [data for data in outputs if WIDGET in data and any(mime in data for mime in _PICTURES)]
    for data in pictured:
        del data[WIDGET]
    if any(WIDGET in data for data in outputs) or _STATE not in notebook["metadata"].get("widgets", {}):
        return len(pictured)
    del notebook["metadata"]["widgets"]
    return len(pictured) + 1


def stripped(path: Path) -> tuple[int, str]:
    """Return the number of changes that stripping makes to a notebook's file, and the text with them.

    Raises FileError for a file that is no notebook of format 4.
    """
    data = content(path)
    try:
        notebook = json.loads(data)
        changes = strip_widgets(notebook) if notebook["nbformat"] == 4 else -1
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):  # whatever a wrong shape leads to
        changes = -1
    if changes < 0:
        raise FileError(
            "it is no notebook",
            path=str(path),
            rule="a notebook must be JSON of Jupyter's format 4",
            fix="open it in JupyterLab and save it, which converts older formats",
        )
    # As nbformat writes it, so that nothing else in the file changes.
    return changes, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def strip_files(paths: list[Path], *, write: bool = True) -> list[Path]:
    """Strip notebooks in place and return those with changes; the others are left as they are.

    Nothing is written unless all files are notebooks.
    """
    results = {path: stripped(path) for path in paths}
    changed = {path: text for path, (changes, text) in results.items() if changes}
    if write:
        for path, text in changed.items():
            write_file(path, text)
    return list(changed)
