"""The help: first things first, and completely visible."""

import pytest
from playwright.sync_api import expect

from explorer.view.export.html_page import html
from tests.view import sample

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-13")]


@pytest.mark.parametrize("wide", [600, 700, 1280, 1440, 1920])
def test_the_help_shows_outlines_first_and_everything_without_scrolling(open_page, tmp_path, wide):
    (tmp_path / "page.html").write_text(html(sample.mlp()), encoding="utf-8")
    page = open_page(viewport={"width": wide, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())
    page.keyboard.press("?")
    help_box = page.get_by_role("dialog", name="outlines and keys")
    expect(help_box.get_by_role("heading").first).to_have_text("outlines")
    assert help_box.evaluate("box => box.scrollHeight <= box.clientHeight")
    room, steps, place = (
        part.bounding_box() for part in (page.locator(".ex-main"), page.locator(".ex-bottom"), help_box)
    )
    assert room["y"] <= place["y"]
    assert place["y"] + place["height"] <= steps["y"]


def test_on_a_narrow_page_outlines_stand_above_the_keys(open_page, tmp_path):
    (tmp_path / "page.html").write_text(html(sample.mlp()), encoding="utf-8")
    page = open_page(viewport={"width": 320, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())
    page.keyboard.press("?")
    headings = page.get_by_role("dialog").get_by_role("heading")
    tops = [heading.bounding_box()["y"] for heading in headings.all()]
    assert tops == sorted(tops)
    assert len(set(tops)) == 3
