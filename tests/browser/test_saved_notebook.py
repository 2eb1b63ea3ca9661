"""Saved notebooks reopened without a kernel, or cloned and not trusted, show views that step."""

from __future__ import annotations

import difflib
import json

import nbformat
import pytest
from playwright.sync_api import expect

from explorer.cli import main
from tests.browser.notebook import ROOT, Lab, Notebook, reopened
from tests.browser.player import node, press
from tests.notebooks.execute import without_machine
from tests.support.representatives import representatives

pytestmark = pytest.mark.browser

NOTEBOOKS = ROOT / "notebooks"
CODE = """
import numpy as np
import explorer as ex
x = ex.tensor(np.ones((4, 4), np.float32), name="x")
view = ex.explore(ex.sum(ex.exp(ex.tanh(x) * 2)))
view
"""


def saved(lab: Lab, book: Notebook) -> dict:
    """Save an open notebook, shut down its kernel, and return the file's contents."""
    path = book.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.path")
    book.command("docmanager:save")
    book.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    book.page.evaluate("async () => { await window.jupyterapp.shell.currentWidget.context.sessionContext.shutdown(); }")
    return json.loads((lab.root / path).read_text(encoding="utf-8"))


@pytest.mark.spec("V-21", "V-15", "V-16", headline=True)
@pytest.mark.parametrize("kernel", representatives([False, True], [False]))
def test_a_saved_notebook_steps_without_its_kernel(lab, notebook, open_lab_page, kernel):
    """Step through the views of a saved notebook without a kernel."""
    book = notebook(CODE)
    expect(book.view().locator(".ex-rail")).to_contain_text("run")
    document = saved(lab, book)
    page = open_lab_page()  # with empty storage
    lab.open(page)
    view = reopened(lab, page, "again.ipynb", document, kernel=kernel).locator(".jp-Notebook .explorer-view")
    expect(view).to_have_count(1)
    press(view, ".")
    expect(view.locator(".ex-say")).to_contain_text("decision 1 of")
    node(view, "exp").click()
    expect(view.locator(".ex-why .ex-statistics")).to_contain_text("mean")


@pytest.mark.spec("V-16", "V-21")
def test_a_cloned_notebook_steps_although_it_is_not_trusted(lab, notebook):
    """An untrusted notebook shows its views and steps."""
    book = notebook(CODE)
    document = saved(lab, book)
    book.close()
    document["cells"].append({"cell_type": "markdown", "id": "else", "metadata": {}, "source": "of somebody else"})
    view = reopened(lab, book.page, "cloned.ipynb", document).locator(".jp-Notebook .explorer-view")
    expect(view).to_have_count(1)
    press(view, "End")
    expect(view.locator(".ex-say")).not_to_be_empty()


@pytest.mark.soak
@pytest.mark.spec("V-15", "V-22")
def test_a_tutorial_that_was_run_in_jupyterlab_and_stripped_is_as_it_was(lab, lab_page):
    """A committed notebook that is run, saved and stripped equals the committed file, byte by byte."""
    name = "01_expressions_and_the_plan.ipynb"
    committed = (NOTEBOOKS / name).read_bytes()
    page = reopened(lab, lab_page, name, json.loads(committed), kernel=True)
    page.wait_for_function(
        "name => window.jupyterapp.shell.currentWidget?.context?.path === name"
        " && window.jupyterapp.shell.currentWidget.context.sessionContext.isReady",
        arg=name,
    )
    book = Notebook(page)
    book.command("notebook:run-all-cells")
    page.wait_for_function(
        "() => [...window.jupyterapp.shell.currentWidget.content.model.cells]"
        ".every((cell) => cell.type !== 'code' || cell.executionState === 'idle')"
    )
    saved(lab, book)
    assert (lab.root / name).read_bytes() != committed
    assert main(["strip", str(lab.root / name)]) == 0
    stripped = nbformat.read(lab.root / name, as_version=4)
    without_machine(stripped)
    nbformat.write(stripped, lab.root / name)
    lines = (lab.root / name).read_text(encoding="utf-8").splitlines(keepends=True)
    difference = difflib.unified_diff(committed.decode().splitlines(keepends=True), lines, "committed", "run")
    assert (lab.root / name).read_bytes() == committed, "".join(difference)


@pytest.mark.spec("V-22")
def test_a_stripped_notebook_that_is_opened_has_no_unsaved_changes(lab, notebook, open_lab_page):
    """Open a stripped notebook in JupyterLab without unsaved changes."""
    document = saved(lab, notebook(CODE))
    path = lab.root / "stripped.ipynb"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert main(["strip", str(path)]) == 0
    page = open_lab_page()
    lab.open(page)
    reopened(lab, page, path.name, json.loads(path.read_text(encoding="utf-8")), kernel=True)
    expect(page.locator(".jp-Notebook .explorer-view")).to_have_count(1)
    page.evaluate(
        """async () => {
            const { context } = window.jupyterapp.shell.currentWidget;
            await context.sessionContext.ready;
            await context.sessionContext.session.kernel.info;
            await new Promise(done => setTimeout(done, 500));
        }"""
    )
    assert not page.evaluate("() => window.jupyterapp.shell.currentWidget.context.model.dirty")


@pytest.mark.spec("V-15", headline=True)
def test_the_picture_stands_where_the_extension_does_not(lab, notebook):
    """Show a static picture if neither the extension nor a kernel is available, even in an untrusted notebook."""
    book = notebook(CODE)
    document = saved(lab, book)
    book.close()
    for output in document["cells"][0]["outputs"]:
        for mime in ("application/vnd.explorer+json", "application/vnd.jupyter.widget-view+json"):
            output["data"].pop(mime, None)
    document["cells"].append({"cell_type": "markdown", "id": "else", "metadata": {}, "source": "of somebody else"})
    page = reopened(lab, book.page, "plain.ipynb", document)
    picture = page.locator(".jp-Notebook .jp-OutputArea-output img")
    expect(picture).to_be_visible()
    assert picture.evaluate("picture => picture.complete && picture.naturalWidth") > 100


@pytest.mark.spec("V-16")
def test_a_living_widget_comes_before_what_is_stored(notebook):
    """While the kernel runs, an output shows only the widget, which follows its traits."""
    book = notebook(CODE)
    view = book.view()
    book.execute("view.step = 1")
    expect(view.locator(".ex-say")).to_contain_text("decision 1 of")
    expect(book.page.locator(".jp-Notebook .explorer-view")).to_have_count(1)


@pytest.mark.spec("V-16", "V-21")
def test_a_widget_that_comes_late_goes_on_where_the_reader_is(notebook):
    """A step and selection in the stored view are kept when the widget appears later."""
    book = notebook("1")
    book.page.evaluate(
        """() => {
            const { rendermime } = window.jupyterapp.shell.currentWidget.content;
            const mime = "application/vnd.jupyter.widget-view+json";
            const { createRenderer } = rendermime.getFactory(mime);
            const late = (options) => {
                const widget = createRenderer(options);
                const render = widget.renderModel.bind(widget);
                widget.renderModel = (model) => new Promise((done) => { window.come = () => done(render(model)); });
                return widget;
            };
            rendermime.addFactory({ safe: false, mimeTypes: [mime], createRenderer: late }, -11);
        }"""
    )
    book.execute(CODE)
    stored = book.view()
    press(stored, ".")
    expect(stored.locator(".ex-say")).to_contain_text("decision 1 of")
    node(stored, "exp").click()
    expect(stored.locator(".ex-why h4")).to_have_text("exp")
    stored.evaluate("view => view.classList.add('of-the-notebook')")
    book.page.evaluate("() => window.come()")
    expect(book.page.locator(".jp-Notebook .explorer-view.of-the-notebook")).to_have_count(0)
    view = book.view()
    expect(book.page.locator(".jp-Notebook .explorer-view")).to_have_count(1)
    expect(view.locator(".ex-say")).to_contain_text("decision 1 of")
    expect(view.locator(".ex-why h4")).to_have_text("exp")
    expect(view.locator("[data-key]:focus")).to_have_count(1)
    book.says("print(view.step, view.selected_expression.operation.name)", "1 exp\n")
