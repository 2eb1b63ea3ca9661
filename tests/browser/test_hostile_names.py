"""Hostile names in overlays, predictions, searches and links in prose."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import nbformat
import pytest
from playwright.sync_api import Locator, Page, expect

from explorer.site.build import build_site
from explorer.view.model.heat import overlay
from tests.browser.notebook import Notebook
from tests.browser.player import press
from tests.support import hostile_names
from tests.support.hostile_names import NAMES, hostile_plan

pytestmark = pytest.mark.browser

LINKS = [
    f"node={quote(NAMES[0])}&stage=fuse", f"node={quote(NAMES[4])}", f"stage={quote(NAMES[0])}",
    "open=__proto__&step=1e99", "node=__proto__&kernel=-1", "decision=constructor", "depth=%00", "step=javascript:1",
]  # fmt: skip


def assert_unharmed(page: Page) -> None:
    """Assert that no part of a name ran or became an element."""
    assert page.evaluate("window.__pwned") is None
    assert (
        page.locator(
            "[onerror], [onmouseover], img[src=x], .explorer-view script, .explorer-view a[href^=java]"
        ).count()
        == 0
    )


def play(view: Locator) -> None:
    """Search, select, predict, and step to the end."""
    for name in NAMES[:3]:
        press(view, "/")
        view.page.keyboard.type(f"name:{name}")
        view.page.keyboard.press("Enter")
        view.page.keyboard.press("Escape")
    press(view, "[", "[", "g", "Enter", "m", ".", "y", "n", "y", "Escape", *["]"] * 12)
    for leaf in view.locator(".ex-node").all()[:6]:
        leaf.dispatch_event("mouseover")
        leaf.dispatch_event("click")


def test_overlays_and_predictions_of_hostile_names_are_text(show: Callable[..., Locator]) -> None:
    """Search, predict and step on a page with hostile names of overlay, nodes and boxes; all stays text."""
    recording = hostile_plan().prepare().recording
    metrics = [overlay(recording, {3: 4.0, 5: -2.0}, name, name, name) for name in NAMES]
    view = show(recording, overlays=metrics)
    play(view)
    assert_unharmed(view.page)
    expect(view.locator(".ex-rail")).to_contain_text("fuse")


@pytest.mark.parametrize("link", LINKS)
def test_links_in_prose_to_hostile_places_harm_no_page(link: str, page: Page, tmp_path: Path) -> None:
    data, _ = hostile_plan().prepare().explore()._repr_mimebundle_()
    kept = {mime: value for mime, value in data.items() if "widget" not in mime}
    output = nbformat.v4.new_output("display_data", data=kept)
    cells = [
        nbformat.v4.new_markdown_cell(f"[go](<#explorer:{link}>)"),
        nbformat.v4.new_code_cell("", outputs=[output]),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "a.ipynb")
    build_site([tmp_path / "a.ipynb"], tmp_path, "One")
    page.goto((tmp_path / "a.html").as_uri())
    page.get_by_role("link", name="go", exact=True).click()
    view = page.locator(".explorer-view")
    expect(view).to_be_visible()
    press(view, ".")
    expect(view.locator(".ex-say")).to_contain_text("decision")
    assert_unharmed(page)


def test_live_widgets_of_hostile_names_are_text(notebook: Callable[..., Notebook]) -> None:
    """Check a live JupyterLab widget with hostile names, links in prose to it, and its printed output."""
    source = inspect.getsource(hostile_names).replace("from __future__ import annotations", "")
    book = notebook(source + "\nplan = hostile_plan().prepare()\nview = plan.explore()\nview")
    view = book.view()
    book.insert_text(" ".join(f"[go {number}](<#explorer:{link}>)" for number, link in enumerate(LINKS)))
    expect(book.page.get_by_role("link", name=re.compile("^go ")).first).to_be_visible()
    clicked = 0
    for number in range(len(LINKS)):
        link = book.page.get_by_role("link", name=f"go {number}", exact=True)
        if link.count():  # JupyterLab's sanitizer may remove it
            link.click()
            clicked += 1
    assert clicked
    play(view)
    book.says("print(view.step > 0)", "True\n")
    assert_unharmed(book.page)
