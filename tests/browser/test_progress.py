"""The progress bar of long work in JupyterLab: it appears, can be cancelled, and leaves nothing."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.notebook import Notebook

pytestmark = pytest.mark.browser

SLOW = """\
import threading
import time
import numpy as np
import explorer as ex

class Slow(ex.Elementwise):
    "The same value, a tenth of a second later."
    nondifferentiable = "nobody asks"
    examples = (ex.Example(ex.real()),)

    def kernel(self, out, x):
        time.sleep(0.1)
        return np.positive(x, out=out)

def slow(steps):
    y = ex.tensor(np.ones(3))
    for _ in range(steps):
        y = Slow()(y)
    return y"""
EVALUATE = """\
print("before")
try:
    print("value", ex.evaluate(slow({steps}), without="fuse")[0])
except KeyboardInterrupt as stopped:
    print("stopped:", type(stopped).__name__, *stopped.args)
else:
    thread = threading.Thread(target=print, args=("from a thread",))
    thread.start()
    thread.join()
print("again", ex.evaluate(slow(2), without="fuse")[0])"""

Open = Callable[..., Notebook]


def outputs(notebook: Notebook, index: int) -> list[dict[str, object]]:
    """Return the outputs of a cell as the notebook file would store them."""
    result: list[dict[str, object]] = notebook.page.evaluate(
        "index => window.jupyterapp.shell.currentWidget.content.model.cells.get(index).outputs.toJSON()", index
    )
    return result


def start(notebook: Open, steps: int) -> Notebook:
    """Start a notebook, and return while its second cell runs."""
    book = notebook(SLOW)
    book.page.evaluate(
        """code => {
            const { content } = window.jupyterapp.shell.currentWidget;
            content.model.sharedModel.insertCell(1, { cell_type: "code", source: code });
            content.activeCellIndex = 1;
            content.deselectAll();
            void window.jupyterapp.commands.execute("notebook:run-cell");
        }""",
        EVALUATE.format(steps=steps),
    )
    return book


@pytest.mark.spec("V-20", headline=True)
def test_a_bar_appears_and_its_button_cancels(notebook: Open) -> None:
    """Show a progress bar for long work; its Cancel button stops the work, and the next evaluation succeeds."""
    book = start(notebook, 600)
    page = book.page
    bar = page.locator(".jp-OutputArea .widget-hbox")
    expect(bar).to_be_visible(timeout=30_000)
    expect(bar).to_contain_text("/600 running slow")
    expect(bar.locator(".progress-bar, progress, .widget-hprogress")).not_to_have_count(0)
    bar.locator("button", has_text="Cancel").click()
    output = page.locator(".jp-CodeCell").nth(1).locator(".jp-OutputArea-output")
    expect(output.filter(has_text="again 1.0")).to_have_count(1, timeout=20_000)
    expect(bar).to_have_count(0)
    said = "".join("".join(part.get("text", "")) for part in outputs(book, 1))  # type: ignore[arg-type]
    assert said == "before\nstopped: Cancelled cancelled while running slow\nagain 1.0\n"


@pytest.mark.spec("V-20")
@pytest.mark.soak
def test_nothing_of_the_bar_stays_in_the_notebook(notebook: Open) -> None:
    """After the work the cell's output contains the printed text and nothing of the bar."""
    book = start(notebook, 40)
    page = book.page
    bar = page.locator(".jp-OutputArea .widget-hbox")
    expect(bar).to_be_visible(timeout=30_000)
    output = page.locator(".jp-CodeCell").nth(1).locator(".jp-OutputArea-output")
    expect(output.filter(has_text="again 1.0")).to_have_count(1, timeout=20_000)
    expect(bar).to_have_count(0)
    kept = [part for part in outputs(book, 1) if part.get("text") or part.get("data")]
    assert "".join("".join(part["text"]) for part in kept) == "before\nvalue 1.0\nfrom a thread\nagain 1.0\n"  # type: ignore[arg-type]
    assert "widget" not in json.dumps(outputs(book, 1))
