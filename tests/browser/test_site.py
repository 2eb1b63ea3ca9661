"""A notebook site opened from disk: its views step, it loads nothing else, and it is accessible."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from playwright.sync_api import Page, expect

from explorer.site.build import build_site
from tests.browser.axe import complaints, rules_of
from tests.browser.player import node, press, stage
from tests.support.leading_markup import LEADING
from tests.support.representatives import representatives

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-21")]

COURSE = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
NOTEBOOKS = COURSE[:3]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build_site(NOTEBOOKS, folder, "Three notebooks")
    return folder


def loaded(page: Page) -> list[str]:
    """Return a list that collects the addresses that a page requests from now on, except data in the page itself."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    return asked


def test_pages_step_from_disk(site: Path, page: Page) -> None:
    """Go from the index to a page, step and click in its views, which load nothing, then go to the next page."""
    asked = loaded(page)
    page.goto((site / "index.html").as_uri())
    page.get_by_role("link", name="Expressions and the plan").click()
    place = page.locator(".book-view")
    expect(place).to_have_count(4)
    for index in (0, 2):
        place.nth(index).scroll_into_view_if_needed()
        view = place.nth(index).locator(".explorer-view")
        expect(view).to_be_visible()
        press(view, ".")
        expect(view.locator(".ex-say")).to_contain_text("decision 1 of")
        view.evaluate("view => view.scrollIntoView({ block: 'center' })")
        view.get_by_role("button", name="fit into view").click()
        node(view, "tanh").click()
        expect(view.locator(".ex-why h4")).to_have_text("tanh")
    page.locator("a[rel=next]").click()
    expect(page.locator("h1")).to_contain_text("A model's graph")
    expect(page.locator("nav [aria-current=page]")).to_have_text("02 A model's graph")
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in asked if url.startswith("file:")]) == 3


def test_a_hostile_page_stays_and_loads_nothing(page: Page, tmp_path: Path) -> None:
    """Markup in prose and outputs that would load, run or redirect does nothing in a browser."""
    cells = [new_markdown_cell(f"text\n\n{markup}") for markup in LEADING]
    outputs = [new_output("display_data", data={"text/html": markup}) for markup in LEADING]
    nbformat.write(new_notebook(cells=[*cells, new_code_cell("1", outputs=outputs)]), tmp_path / "a.ipynb")
    build_site([tmp_path / "a.ipynb"], tmp_path, "One")
    asked = loaded(page)
    page.goto((tmp_path / "a.html").as_uri())
    page.wait_for_timeout(1000)
    assert page.url == (tmp_path / "a.html").as_uri()
    assert asked == [page.url]


@pytest.mark.spec("V-18")
@pytest.mark.parametrize("path", representatives(COURSE, [COURSE[0], COURSE[4]]), ids=lambda path: path.stem)
def test_every_view_of_the_course_is_stepped_predicted_and_searched(path: Path, tmp_path: Path, page: Page) -> None:
    """On each page from disk, go through all stages, exercises and a search without requests or errors."""
    asked, complained = loaded(page), []
    page.on("console", lambda message: complained.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complained.append(str(error)))
    build_site([path], tmp_path, "One notebook")
    page.goto((tmp_path / f"{path.stem}.html").as_uri())
    places = page.locator(".book-view")
    assert places.count()
    predicted = set()
    for place in places.all():
        place.scroll_into_view_if_needed()
        view = place.locator(".explorer-view")
        last = view.locator(".ex-rail button").last.inner_text().split()[0]
        press(view, *["]"] * 30)
        expect(stage(view)).to_contain_text(last)
        press(view, *[","] * 5)
        for name in ("recorded", "fuse", "order", "buffers"):
            chip = view.locator(".ex-rail button").filter(has_text=name)
            if chip.count() and "+" not in chip.first.inner_text():
                chip.first.click()
                press(view, "g")
                expect(view.locator(".ex-why h4")).to_contain_text("predict")
                predicted.add(view.locator(".ex-why h4").inner_text())
                press(view, "Escape")
        press(view, "/")
        page.keyboard.type("name:e")
        expect(view.locator(".ex-search [role=status]")).to_contain_text("node")
        press(view, "Escape")
    assert "predict the order" in predicted
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert complained == []


def test_a_view_is_drawn_where_its_place_was(site: Path, page: Page) -> None:
    """Nothing below a view moves when it is drawn, so links to headings further down work."""
    page.goto((site / f"{NOTEBOOKS[0].stem}.html").as_uri())
    page.locator(".book-contents ol ol a", has_text="Exercises").click()  # the first heading below the last view
    target = page.locator("article h2", has_text="Exercises")
    expect(target).to_be_in_viewport()
    expect(page.locator(".book-view .explorer-view").last).to_be_attached()
    expect(target).to_be_in_viewport()


@pytest.mark.parametrize(
    ("wide", "scheme"), representatives(product((1440, 600), ("light", "dark")), [(1440, "light")])
)
def test_axe_finds_nothing(site: Path, open_page: Callable[..., Page], scheme: str, wide: int) -> None:
    """Check pages with all their views in one size and theme, and with their first view in the others."""
    page = open_page(viewport={"width": wide, "height": 900}, color_scheme=scheme)
    for name in ("index", NOTEBOOKS[0].stem):
        page.goto((site / f"{name}.html").as_uri())
        place = page.locator(".book-view")
        for index in range(place.count()):
            place.nth(index).scroll_into_view_if_needed()
            expect(place.nth(index).locator(".explorer-view")).to_have_attribute("data-theme", scheme)
        where = {"include": [["html"]], "exclude": []}
        if (wide, scheme) != (1440, "light") and place.count() > 1:
            place.evaluate_all("places => places.slice(1).forEach((place) => place.classList.add('of-another-size'))")
            where["exclude"] = [[".of-another-size"]]
        assert complaints(page, where, rules_of(scheme)) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_without_scripts_pictures_and_text_stand(site: Path, open_page: Callable[..., Page]) -> None:
    """Without scripts each view is a picture with its decisions as text."""
    page = open_page(java_script_enabled=False)
    page.goto((site / f"{NOTEBOOKS[0].stem}.html").as_uri())
    place = page.locator(".book-view").first
    expect(place.locator("img")).to_be_visible()
    place.locator("summary").click()
    expect(place.locator("pre")).to_contain_text("✓")


def test_a_printed_page_has_pictures_and_no_controls(site: Path, page: Page) -> None:
    """A printed view is its picture and sentence, without buttons and gaps."""
    page.goto((site / "01_expressions_and_the_plan.html").as_uri())
    place = page.locator(".book-view").first
    place.scroll_into_view_if_needed()
    expect(place.locator(".explorer-view")).to_be_visible()
    page.emulate_media(media="print")
    for gone in (".ex-tools", ".ex-hint", ".ex-minimap", ".ex-transport button", ".ex-height-bar"):
        expect(place.locator(gone).first).to_be_hidden()
    for stays in (".ex-say", ".ex-node"):
        expect(place.locator(stays).first).to_be_visible()
    expect(page.locator(".book-contents")).to_be_hidden()
    heights = place.evaluate("place => [place, place.querySelector('.explorer-view')].map((part) => part.offsetHeight)")
    assert heights[0] - heights[1] < 80
    page.emulate_media(media="screen")
    expect(place.locator(".ex-tools").first).to_be_visible()
