"""Static pictures, rendered by Chromium."""

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.view.export.html_page import html
from explorer.view.picture.svg import svg
from tests.browser.player import node
from tests.view import sample

pytestmark = pytest.mark.browser

OUTSIDE = """() => [...document.querySelectorAll('svg g > text')].map(text => {
  const rects = [...text.parentNode.querySelectorAll('rect')].map(rect => rect.getBBox());
  const box = text.getBBox();
  const inside = rects.some(r => box.x >= r.x && box.x + box.width <= r.x + r.width);
  return inside ? null : text.textContent;
}).filter(text => text !== null)"""


@pytest.mark.spec("V-15")
@pytest.mark.parametrize("make", [sample.mlp, sample.transformer, sample.resnet, sample.hostile])
def test_every_text_fits_into_its_node(browser, make):
    page = browser.new_page()
    page.set_content(svg(make()))
    assert page.locator("svg g > text").count() > 4
    assert page.evaluate(OUTSIDE) == []
    page.close()


@pytest.mark.spec("V-13", "V-15")
@pytest.mark.parametrize(("scheme", "colour"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(17, 21, 29)")])
def test_the_picture_follows_the_reader(browser, scheme, colour):
    page = browser.new_page(color_scheme=scheme)
    page.set_content(svg(sample.mlp()))
    assert page.evaluate("getComputedStyle(document.querySelector('.canvas')).fill") == colour
    page.close()


@pytest.mark.spec("V-14", "V-15")
def test_the_page_works_from_disk_and_asks_for_nothing(browser, tmp_path):
    path = tmp_path / "loss.html"
    path.write_text(html(sample.mlp()), encoding="utf-8")
    page = browser.new_page()
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    page.get_by_text("softmax").first.wait_for()
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [path.as_uri()]
    assert complaints == []
    page.close()


@pytest.mark.spec("V-14")
def test_hostile_names_do_nothing_in_the_page(browser, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(html(sample.hostile()), encoding="utf-8")
    page = browser.new_page()
    dialogs, complaints = [], []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    page.get_by_text(sample.HOSTILE[1]).first.wait_for()
    assert page.locator("#explorer img").count() == 0
    assert dialogs == complaints == []
    page.close()


@pytest.mark.spec("V-15")
def test_without_scripts_the_picture_stands(browser, tmp_path):
    path = tmp_path / "loss.html"
    path.write_text(html(sample.mlp()), encoding="utf-8")
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(path.as_uri())
    assert page.locator("svg[role=img]").is_visible()
    page.context.close()


@pytest.mark.spec("V-4")
def test_the_mark_of_an_output_covers_no_type(show):
    """The word "output" is below the type of a value, also for leaves, which are lower."""
    x = ex.tensor(np.ones((2, 3), np.float32), name="x")
    plan = ex.EvalPlan()
    for each in (x, ex.tanh(x)):
        plan.register(each)
    view = show(plan.prepare().recording)
    expect(view.locator(".ex-node .ex-asked")).to_have_count(2)
    gaps = view.locator(".ex-node:has(.ex-asked)").evaluate_all(
        """(nodes) => nodes.map((node) => {
            const type = Number(node.querySelector(".ex-second").getAttribute("y"));
            return Number(node.querySelector(".ex-asked rect").getAttribute("y")) - type;
        })"""
    )
    assert min(gaps) >= 2.5  # descenders of the type reach this far below its line


@pytest.mark.spec("V-16")
def test_a_host_that_clips_drawings_hides_no_node(show):
    """The tiles of the canvas are one pixel large, and Vuetify (in Solara) hides the parts of drawings outside."""
    view = show(sample.mlp())
    view.page.add_style_tag(content="svg:not(:root) { overflow: hidden }")
    node(view, "x").click()
    expect(view.locator(".ex-why h4")).to_have_text("x")
