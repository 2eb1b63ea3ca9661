"""Memory of widgets in the page and the kernel after their cells ran again."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

import explorer.view

pytestmark = pytest.mark.browser

SHOW = """
from explorer.view.widget.widget import GraphView
from tests.view import sample
view = GraphView(sample.mlp())
view
"""
MODELS = """
import ipywidgets
print(len(ipywidgets.widgets.widget._instances))
"""
FRONT_ENDS = "() => globalThis[Symbol.for('explorer-graphs front ends')].size"
STYLES = "() => [...document.querySelectorAll('style')].filter((style) => style.textContent.includes('.ex-say')).length"


@pytest.mark.spec("V-16")
def test_a_page_imports_the_front_end_once(notebook):
    book = notebook(SHOW, "GraphView(sample.transformer())")
    book.view(0), book.view(1)
    book.again(0)
    expect(book.page.locator(".explorer-view")).to_have_count(2)
    assert book.page.evaluate(FRONT_ENDS) == 1
    assert book.page.evaluate(STYLES) == 1


@pytest.mark.spec("V-16")
def test_widgets_of_a_cell_leave_when_it_runs_again(notebook):
    book = notebook(SHOW)
    book.view()
    models = book.execute(MODELS)
    for _ in range(3):
        book.again(0)
    book.view()
    assert book.execute(MODELS) == models


@pytest.mark.spec("V-16")
def test_a_widget_that_stands_in_another_cell_stays_there(notebook):
    book = notebook(SHOW, "view")
    old = book.view(1)
    old.get_by_role("button", name="a step forward").click()
    book.again(0)
    expect(book.view(0).locator(".ex-say")).to_contain_text("14 nodes, 10 of them operations")
    expect(old.locator(".ex-say")).to_contain_text("decision 1 of 3")


@pytest.mark.spec("V-16")
def test_a_widget_that_left_opens_anew_in_its_state(notebook):
    book = notebook(SHOW, "")
    book.view()
    book.execute("first = view")
    book.again(0)
    book.execute("first.step = 1")
    book.execute("first")
    again = book.view(1)
    expect(again.locator(".ex-say")).to_contain_text("decision 1 of 3")
    again.get_by_role("button", name="a step forward").click()
    book.says("print(first.step, view.step)", "2 0\n")


@pytest.mark.spec("V-16")
def test_what_an_output_widget_captured_stays_in_it(notebook):
    captured = SHOW.removesuffix("view\n") + "with kept:\n    display(view)"
    book = notebook("import ipywidgets\nkept = ipywidgets.Output()\nkept", captured)
    old = book.view()
    book.again(1)
    expect(book.page.locator(".explorer-view")).to_have_count(2)
    old.get_by_role("button", name="a step forward").click()
    expect(old.locator(".ex-say")).to_contain_text("decision 1 of 3")


@pytest.mark.spec("V-16")
def test_a_view_says_when_its_kernel_is_gone(notebook):
    book = notebook(SHOW)
    view = book.view()
    expect(view.get_by_text("no kernel")).to_be_hidden()
    book.restart()
    expect(view.get_by_text("no kernel")).to_be_visible()
    view.get_by_role("button", name="a step forward").click()
    expect(view.locator(".ex-say")).to_contain_text("decision 1 of 3")
    book.again(0)
    expect(view.locator(".ex-say")).to_contain_text("14 nodes, 10 of them operations")
    expect(view.get_by_text("no kernel")).to_be_hidden()


LOADED = """async ([code, attributes]) => {
    const { default: { initialize } } = await import("data:text/javascript," + encodeURIComponent(code));
    const known = new Map(Object.entries(attributes));
    const set = (name, value, options) => options.silent && known.set(name, value);
    const model = { get: (name) => known.get(name), set };
    const close = initialize({ model });
    const before = Object.fromEntries(known);
    close();
    return [before, Object.fromEntries(known)];
}"""


@pytest.mark.spec("V-16")
def test_a_model_that_is_closed_forgets_its_recording(page):
    """JupyterLab keeps the model of every run of a cell; its large traits are cleared and small ones kept."""
    code = (Path(explorer.view.__file__).parent / "widget" / "loader.js").read_text(encoding="utf-8")
    kept = {"payload": "{}", "insides": "[]", "step": 3}
    assert page.evaluate(LOADED, [code, kept]) == [kept, {"payload": "", "insides": "", "step": 3}]
