"""Stripping of notebooks: pictures are kept, and references to widgets without a kernel are removed."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbconvert import HTMLExporter

import explorer as ex
from explorer.cli import main

WIDGET = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"


def notebook(*outputs: dict[str, object]) -> nbformat.NotebookNode:
    """A notebook as written by nbconvert --execute: outputs with widgets, and the widgets' state."""
    cell = nbformat.v4.new_code_cell("view")
    cell.outputs = [nbformat.v4.new_output("display_data", data=data) for data in outputs]
    document = nbformat.v4.new_notebook(cells=[cell])
    document.metadata["widgets"] = {STATE: {"version_major": 2, "version_minor": 0, "state": {"a": {}}}}
    return document


def written(folder: Path, document: nbformat.NotebookNode) -> Path:
    path = folder / "x.ipynb"
    nbformat.write(document, path)
    return path


@pytest.fixture
def view() -> dict[str, object]:
    data, _ = ex.explore(ex.tanh(ex.tensor(np.ones(3), name="ä")), run=False)._repr_mimebundle_()
    return data


@pytest.mark.spec("V-15", "V-22")
def test_a_notebook_keeps_its_pictures_and_loses_its_widgets(tmp_path: Path, view, capsys) -> None:
    """`explorer strip` removes widgets that have a picture, and their state, in place; the rest is unchanged."""
    path = written(tmp_path, notebook(view, {"text/plain": "3"}))
    assert main(["strip", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: stripped\n"
    after = nbformat.read(path, as_version=4)
    nbformat.validate(after)
    expected = notebook({mime: value for mime, value in view.items() if mime != WIDGET}, {"text/plain": "3"})
    assert after.cells[0].outputs == expected.cells[0].outputs
    assert "widgets" not in after.metadata
    before = path.read_bytes()
    assert main(["strip", str(path)]) == 0
    assert path.read_bytes() == before
    nbformat.write(after, path)
    assert path.read_bytes() == before, "it is written as nbformat writes it"


def test_a_widget_without_a_picture_keeps_its_state(tmp_path: Path, view) -> None:
    path = written(tmp_path, notebook(view, {WIDGET: {"model_id": "a"}, "text/plain": "IntSlider()"}))
    assert main(["strip", str(path)]) == 0
    after = nbformat.read(path, as_version=4)
    assert [WIDGET in output.data for output in after.cells[0].outputs] == [False, True]
    assert STATE in after.metadata.widgets


def test_a_check_changes_nothing_and_reports_its_findings(tmp_path: Path, view, capsys) -> None:
    path = written(tmp_path, notebook(view))
    before = path.read_bytes()
    assert main(["strip", "--check", str(path)]) == 1
    assert path.read_bytes() == before
    assert capsys.readouterr().out == f"{path}: is not stripped\n"
    assert main(["strip", str(path)]) == 0
    assert main(["strip", "--check", str(path)]) == 0


@pytest.mark.spec("V-22")
def test_content_that_differs_between_runs_is_removed(tmp_path: Path) -> None:
    """Times and output of progress bars are removed; JupyterLab would add the kernel and its version again."""
    clean = notebook({"text/plain": "3"})
    clean.cells[0].metadata = {"tags": ["raises-exception"], "scrolled": True}
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    version = {"name": "python", "version": "3.11.7"}
    clean.metadata = {"kernelspec": kernel, "language_info": version, "title": "x"}
    path = written(tmp_path, clean)
    expected = path.read_bytes()
    clean.cells[0].metadata |= {"execution": {"iopub.status.busy": "2026-11-23T09:00:00Z"}, "trusted": True}
    clean.cells[0].outputs.append(nbformat.v4.new_output("display_data", data={}))
    clean.metadata["trusted"] = True
    written(tmp_path, clean)
    assert main(["strip", "--check", str(path)]) == 1
    assert main(["strip", str(path)]) == 0
    assert path.read_bytes() == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        json.dumps({"nbformat": 3, "cells": [], "metadata": {}}),
        "[" * 9999,
        '{"nbformat": 4, "cells": [1], "metadata": {}}',
        '{"nbformat": 4, "cells": 1, "metadata": {}}',
    ],
)
def test_an_invalid_notebook_raises_an_error_and_is_unchanged(tmp_path: Path, text: str, capsys) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text(text)
    assert main(["strip", str(path)]) == 2
    assert "it is not a notebook" in capsys.readouterr().err
    assert path.read_text() == text


def test_the_notebooks_of_the_project_are_stripped(capsys) -> None:
    paths = sorted((Path(__file__).parents[3] / "notebooks").glob("*.ipynb"))
    assert main(["strip", "--check", *map(str, paths)]) == 0


@pytest.mark.parametrize("wrong", ["[]", None])
def test_one_invalid_file_keeps_all_notebooks_unchanged(tmp_path: Path, view, wrong: str | None) -> None:
    path, other = written(tmp_path, notebook(view)), tmp_path / "other.ipynb"
    if wrong is not None:
        other.write_text(wrong)
    before = path.read_bytes()
    assert main(["strip", str(path), str(other)]) == 2
    assert path.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes in folders")
def test_a_pipe_raises_an_error_without_waiting(tmp_path: Path, capsys) -> None:
    path = tmp_path / "x.ipynb"
    os.mkfifo(path)
    assert main(["strip", str(path)]) == 2
    assert "a regular file" in capsys.readouterr().err


@pytest.mark.spec("V-15", "V-16")
def test_a_stripped_notebook_is_converted_to_a_page_with_its_picture(tmp_path: Path, view) -> None:
    """The page from nbconvert contains the picture itself, for readers without a network."""
    path = written(tmp_path, notebook(view))
    assert main(["strip", str(path)]) == 0
    page, _ = HTMLExporter().from_filename(str(path))
    main_part = page[page.index("<main") :]
    assert re.search(r'<img [^>]*src="data:image/svg\+xml;base64,', main_part)
    assert "widget-view" not in main_part
