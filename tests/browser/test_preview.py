"""A large graph is shown as recorded during planning; afterwards only the cell's final view remains."""

from __future__ import annotations

import inspect
import re

import pytest
from playwright.sync_api import expect

from tests.support.large import flat
from tests.support.representatives import representatives

pytestmark = pytest.mark.browser

WAITING = f"""\
import random
import time
from dataclasses import dataclass
from pathlib import Path
import numpy as np
import explorer as ex

{inspect.getsource(flat)}

@dataclass(frozen=True)
class Wait(ex.Pass):
    "Wait until a file is there."
    name = "wait"
    path: str = ""

    def run(self, graph):
        until = time.monotonic() + 120
        while not Path(self.path).exists() and time.monotonic() < until:
            time.sleep(0.05)

def passes(path):
    return {{"passes": [Wait(path), *ex.default_passes()]}}"""
RUN = """code => {
    const { content } = window.jupyterapp.shell.currentWidget;
    content.model.sharedModel.insertCell(1, { cell_type: "code", source: code });
    content.activeCellIndex = 1;
    content.deselectAll();
    void window.jupyterapp.commands.execute("notebook:run-cell");
}"""
OUTPUTS = "() => window.jupyterapp.shell.currentWidget.content.model.cells.get(1).outputs.toJSON()"
MODELS = "import ipywidgets; print(len(ipywidgets.widgets.widget._instances))"


@pytest.mark.spec("V-16")
def test_a_large_graph_stands_before_it_is_planned(notebook, tmp_path):
    book = notebook(WAITING)
    page, ready = book.page, tmp_path / "ready"
    cell = f"ex.explore(flat(700), run=False, theme='dark', plan=passes({str(ready)!r}))"
    page.evaluate(RUN, cell)
    view = page.locator(".jp-Notebook .explorer-view")
    expect(view).to_have_count(1, timeout=60_000)
    expect(view.locator(".ex-chip")).to_have_count(1)
    expect(view.locator(".ex-chip")).to_contain_text("recorded")
    expect(view.locator(".ex-node, .ex-box")).not_to_have_count(0)
    ready.touch()
    expect(view.locator(".ex-chip", has_text="fuse")).to_have_count(1, timeout=60_000)
    expect(view).to_have_count(1)
    kept = [part for part in page.evaluate(OUTPUTS) if part.get("text") or part.get("data")]
    assert [part["output_type"] for part in kept] == ["execute_result"]
    assert {"text/plain", "image/svg+xml"} <= set(kept[0]["data"])


@pytest.mark.spec("V-16")
@pytest.mark.parametrize("nodes", representatives([700, 3_100], [700]))
def test_boxes_of_a_preview_open_while_the_kernel_plans(notebook, tmp_path, nodes):
    """A closed box sent with a preview opens at once; a box inside it reports that the graph is being planned."""
    book = notebook(WAITING)
    page, ready = book.page, tmp_path / "ready"
    page.evaluate(RUN, f"ex.explore(flat({nodes}), run=False, plan=passes({str(ready)!r}))")
    closed = page.locator(".jp-Notebook .ex-box.ex-closed[data-key]").first
    expect(closed).to_have_attribute("aria-expanded", "false", timeout=60_000)
    box = page.locator(f".jp-Notebook [data-key={closed.get_attribute('data-key')}]")
    box.dblclick()
    expect(box).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".ex-waits")).to_be_hidden()
    page.keyboard.press("e")
    expect(page.locator(".ex-waits")).to_have_text(
        re.compile("(This box opens|These boxes open) once the graph is planned.")
    )
    assert page.locator(".jp-Notebook .ex-chip").count() == 1
    ready.touch()
    expect(page.locator(".jp-Notebook .ex-chip", has_text="fuse")).to_have_count(1, timeout=60_000)


@pytest.mark.spec("V-16")
def test_a_view_that_is_not_shown_has_no_preview(notebook):
    book = notebook(WAITING)
    before = int(book.execute(MODELS))
    assert book.execute("view = ex.explore(flat(3_100), run=False)\nprint(len(view.recording.nodes))").strip()
    assert book.page.locator(".jp-Notebook .explorer-view").count() == 0
    # the view, its layout and the shared front end
    assert int(book.execute(MODELS)) == before + 3
