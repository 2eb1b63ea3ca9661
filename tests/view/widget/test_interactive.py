"""Cells run by programs: no reader sees a widget, and pages of these notebooks show the pictures."""

from __future__ import annotations

import re
import types

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

from explorer.cell_outputs import bar
from explorer.core.progress import Progress
from explorer.view.widget import preview
from explorer.view.widget.front_end import WIDGET
from explorer.view.widget.interactive import is_interactive

VIEW = "import explorer as ex\nx = ex.tensor([1.0, 2.0])\ny = ex.exp(x) + 1\nex.explore(y)"
PAIR = """
plans = ex.EvalPlan(), ex.EvalPlan(without=["fuse"])
for plan in plans:
    plan.register(y)
    plan.prepare()
plans[0].compare(plans[1]).explore()
"""


@pytest.mark.spec("V-15", "V-16")
def test_a_page_of_an_executed_notebook_shows_its_pictures():
    """After `nbconvert --execute` and `--to html` a view is an image and a pair two drawings, without widgets."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (VIEW, PAIR)])
    NotebookClient(notebook, kernel_name="python3", timeout=60).execute()
    assert [WIDGET in output.data for cell in notebook.cells for output in cell.outputs] == [False, False]
    page, _ = HTMLExporter().from_notebook_node(notebook)
    main_part = page[page.index("<main") : page.index("</main>")]
    assert len(re.findall(r'<img [^>]*src="data:image/svg\+xml;base64,', main_part)) == 1
    assert main_part.count("<svg") == 2
    assert WIDGET not in main_part


@pytest.mark.spec("V-15", "V-22")
def test_a_notebook_that_a_program_executed_stores_no_model():
    """Keep notebooks that nbconvert or papermill executed small: they store no state of widgets."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (VIEW, PAIR)])
    NotebookClient(notebook, kernel_name="python3", timeout=60).execute()
    assert "widgets" not in notebook.metadata
    assert "application/vnd.explorer+json" in notebook.cells[0].outputs[0].data


def test_a_widget_that_another_package_contains_is_sent_to_a_program_too():
    """An export with the state of widgets shows a box with a view inside."""
    box = VIEW.replace("ex.explore(y)", "import ipywidgets\nview = ex.explore(y)\nipywidgets.VBox([view])")
    change = "view.step = view.last_step"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (box, change)])
    NotebookClient(notebook, kernel_name="python3", timeout=60).execute()
    state = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    (view,) = [each["state"] for each in state.values() if each["model_module"] == "anywidget"]
    assert view["step"] > 0
    assert view["front_end"].removeprefix("IPY_MODEL_") in state


@pytest.fixture
def kernel(monkeypatch):
    """Return a kernel whose request can be set."""
    running = types.SimpleNamespace(request={})
    shell = types.SimpleNamespace(
        kernel=types.SimpleNamespace(get_parent=lambda: running.request),
        transform_cell=lambda code: code,
        events=object(),
    )
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    return running


@pytest.mark.parametrize(
    ("request_sent", "is_expected"),
    [
        ({}, True),  # nothing was asked yet
        ({"content": {"comm_id": "a", "data": {}}}, True),  # a page's message to a widget
        ({"content": {"code": VIEW, "allow_stdin": True}}, True),
        ({"content": {"code": VIEW, "allow_stdin": False}, "metadata": {"cellId": "a"}}, True),
        ({"content": {"code": VIEW, "allow_stdin": False}, "metadata": {}}, False),
    ],
)
def test_a_cell_that_allows_no_input_has_no_reader(kernel, request_sent, is_expected):
    kernel.request = request_sent
    assert is_interactive() == is_expected
    assert preview.is_wanted() == (is_expected and "code" in request_sent.get("content", {}))


@pytest.mark.parametrize("variable", [("SERVER_SOFTWARE", "voila/0.5.8"), ("VOILA_PREHEAT", "True")])
def test_voila_runs_cells_for_a_reader(kernel, monkeypatch, variable):
    kernel.request = {"content": {"allow_stdin": False}}
    monkeypatch.setenv(*variable)
    assert is_interactive()


def test_a_program_gets_no_progress_bar(kernel, monkeypatch):
    """A removed bar leaves an empty output, about which nbconvert warns."""
    kernel.request = {"content": {"allow_stdin": False}}
    monkeypatch.setattr("explorer.view.widget.progress_bar.display", pytest.fail)
    with bar() as report:
        report(Progress("planning", "fuse", 1, 2))
