"""Links in prose control the nearest view, on site pages and in JupyterLab, with and without a kernel."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl

import nbformat
import pytest
from playwright.sync_api import Locator, Page, expect

from explorer.site.build import build_site
from explorer.view.payload.stored import MIME
from tests.browser.notebook import Lab, Notebook, reopened
from tests.browser.player import node, stage
from tests.support.representatives import representatives

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-21")]

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
DRIVEN = [
    "01_expressions_and_the_plan",
    "05_gradients",
    "07_a_network_that_remembers",
    "09_fusion_and_stability",
    "10_memory",
    "11_order_and_executors",
    "02_a_models_graph",
    "03_layers_and_parameters",
    "04_composites_and_policies",
    "06_layers_fed_backward",
    "08_dedup_and_batching",
    "12_a_picture_through_a_classifier",
    "14_data_types_and_the_default_plan",
    "16_training",
    "18_write_the_pass_yourself",
]


def links(path: Path) -> list[tuple[str, int]]:
    """Return a notebook's links into views, each with the number of its view."""
    cells = nbformat.read(path, as_version=4).cells
    views = [n for n, cell in enumerate(cells) for out in cell.get("outputs", []) if MIME in out.get("data", {})]
    return [
        (link, min(range(len(views)), key=lambda view: abs(views[view] - number)))
        for number, cell in enumerate(cells)
        if cell.cell_type == "markdown"
        for link in re.findall(r"\]\(#explorer:([^)\s]+)\)", cell.source)
    ]


def stands_at(view: Locator, link: str) -> None:
    """Assert that a view is at the link's target."""
    named = dict(parse_qsl(link))
    if "stage" in named:
        expect(stage(view)).to_contain_text(named["stage"])
    if "decision" in named:
        expect(view.locator(".ex-say")).to_contain_text("decision")
    if "kernel" in named:
        expect(view.locator(".ex-say")).to_contain_text(f"as number {named['kernel']}")
    if "node" in named:
        expect(view.locator(".ex-graph .ex-selected")).to_have_count(1)


@pytest.mark.parametrize("name", representatives(DRIVEN, [DRIVEN[0], DRIVEN[3]]))
def test_each_link_of_a_page_leads_the_view_beside_it(name: str, page: Page, tmp_path: Path) -> None:
    """Every link moves only its view; the page's address does not change."""
    path = NOTEBOOKS / f"{name}.ipynb"
    build_site([path], tmp_path, "One notebook")
    page.goto((tmp_path / f"{name}.html").as_uri())
    address = page.url
    known = links(path)
    assert len(known) >= 2
    said = "views => views.map(view => view.querySelector('.ex-say')?.textContent ?? '')"
    for link, view in known:
        before = page.locator(".book-view").evaluate_all(said)
        page.locator(f'article a[href="#explorer:{link}"]').click()
        place = page.locator(".book-view").nth(view).locator(".explorer-view")
        stands_at(place, link)
        expect(place).to_be_in_viewport()
        after = page.locator(".book-view").evaluate_all(said)
        pairs = enumerate(zip(before, after, strict=True))  # a view draws nothing before it becomes visible
        moved = {number for number, (old, new) in pairs if old not in ("", new)}
        assert moved <= {view}, f"{link} moved the views {moved}"
    assert page.url == address


def test_a_link_leads_to_a_decision_by_its_rule_and_to_a_kernel(page: Page, tmp_path: Path) -> None:
    """The decision's sentence is shown above the canvas, and its node is visible."""
    path = NOTEBOOKS / "09_fusion_and_stability.ipynb"
    build_site([path], tmp_path, "One notebook")
    page.goto((tmp_path / f"{path.stem}.html").as_uri())
    page.get_by_role("link", name="change of shape").click()
    view = page.locator(".book-view").nth(1).locator(".explorer-view")
    expect(view.locator(".ex-why .ex-where")).to_have_attribute("data-code", "shape")
    page.get_by_role("link", name="sigmoid", exact=True).click()
    expect(view.locator(".ex-why h4")).to_have_text("sigmoid")
    expect(node(view, "sigmoid")).to_be_in_viewport()


SHOW = """
import numpy as np, explorer as ex
x = ex.tensor(np.ones((32, 48), np.float32), name="x")
plan = ex.EvalPlan()
plan.register(ex.sum(ex.tanh(x) * 2))
view = plan.prepare().explore()
view
"""


def test_a_link_in_jupyterlab_drives_the_widget_and_its_traits(notebook: Callable[..., Notebook]) -> None:
    """A link in Markdown next to a live widget, as sanitized by JupyterLab, moves the widget and its traits."""
    book = notebook(SHOW)
    view = book.view()
    book.insert_text("Look at [the sum](#explorer:stage=fuse&node=sum), and [back](#explorer:stage=recorded).")
    book.page.get_by_role("link", name="the sum").click()
    expect(stage(view)).to_contain_text("fuse")
    expect(node(view, "sum")).to_have_class(re.compile(r"\bex-selected\b"))
    book.says("print(view.stage, view.recording.label(view.selected))", "fuse sum\n")
    book.page.get_by_role("link", name="back").click()
    expect(stage(view)).to_contain_text("recorded")


def test_a_link_in_jupyterlab_drives_a_stored_view(lab: Lab, lab_page: Page) -> None:
    """In an untrusted notebook without a kernel, links move the stored views."""
    document = json.loads((NOTEBOOKS / "09_fusion_and_stability.ipynb").read_text(encoding="utf-8"))
    shutil.copytree(NOTEBOOKS / "figures", lab.root / "figures", dirs_exist_ok=True)
    page = reopened(lab, lab_page, "links.ipynb", document)
    link = page.get_by_role("link", name="the whole chain")
    link.click()
    view = page.locator(".jp-Notebook .explorer-view").first
    expect(stage(view)).to_contain_text("fuse")
    expect(view).to_be_in_viewport()
    sigmoid = page.locator(".jp-Notebook a", has_text="sigmoid")
    sigmoid.scroll_into_view_if_needed()
    sigmoid.click()
    chosen = page.locator(".jp-Notebook .explorer-view", has=page.locator(".ex-selected"))
    expect(chosen.locator(".ex-why h4")).to_have_text("sigmoid")
    expect(chosen).to_have_count(1)
