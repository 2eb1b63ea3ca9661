"""The documentation site, built as by ``make docs`` and opened from disk: views, search, themes, sizes and requests."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import complaints, rules_of
from tests.browser.player import node, press, stage

pytestmark = [pytest.mark.browser, pytest.mark.soak]  # building the site takes a minute

ROOT = Path(__file__).parents[2]
TASKS = {
    "Open a torch module": ("open my torch module", "pytorch", "how do I load a pytorch model"),
    "Find out why operations are not fused": ("why is my conv not fused", "not fused", "conv relu not fused"),
    "Run checks in CI": ("put this under CI", "continuous integration", "github actions"),
    "Colour a graph by your own numbers": ("colour by my own numbers", "color nodes", "heat map"),
    "Compare two versions of a model": ("compare two versions of a model", "compare models", "diff two models"),
    "See what another compiler did": ("see what another compiler did", "inductor", "XLA"),
    "Write your own operation": ("write my own operation", "custom operation", "custom op", "add a new operator"),
    "Fix a shape error": ("my shapes clash", "shape mismatch", "broadcast error"),
    "Export a picture for a paper": ("export a picture for a paper", "figure for latex", "export pdf"),
    "Run faster with compiled kernels": ("run faster with compiled kernels", "faster", "speed up"),
}
"""guide → what a reader who needs it types into the search"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; warnings, such as a link without a target, are errors."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "assets/documentation/build.py", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return folder


def elsewhere(page: Page) -> list[str]:
    """Return the list of addresses that a page requests, now or later, except files and data in the page."""
    asked: list[str] = []
    page.on("request", lambda request: request.url.startswith(("file:", "data:")) or asked.append(request.url))
    return asked


@pytest.mark.spec("H-10", headline=True)
def test_the_site_begins_with_a_picture_that_steps_from_disk(site: Path, page: Page) -> None:
    """Build the documentation as a site that works from disk, and step through the picture on its first page"""
    asked = elsewhere(page)
    page.goto((site / "index.html").as_uri())
    view = page.locator(".explorer-view")
    expect(view).to_be_visible()
    press(view, ".")
    expect(view.locator(".ex-say")).to_contain_text("decision 1 of")
    node(view, "tanh").click()
    expect(view.locator(".ex-why h4")).to_have_text("tanh")
    page.get_by_role("link", name="Expressions and the plan").click()
    views = page.locator(".book-view")
    expect(views).to_have_count(4)
    page.locator('a[href="#explorer:stage=order"]').first.click()
    expect(stage(views.first.locator(".explorer-view"))).to_contain_text("order")
    assert asked == []


@pytest.mark.spec("H-10")
def test_the_gallery_has_twenty_pictures_that_step(site: Path, page: Page) -> None:
    """Each card of the gallery leads to a program, and to the view of its last line, which steps."""
    page.goto((site / "docs" / "gallery.html").as_uri())
    cards = page.locator(".gallery figure")
    expect(cards).to_have_count(20)
    headings = cards.locator(".caption-text").all_inner_texts()
    addresses = [link.evaluate("link => link.href") for link in cards.locator("a:has(img)").all()]
    seen = []
    for address in addresses:
        page.goto(address)
        section = page.locator(f"section[id='{urlsplit(address).fragment}']")
        expect(section.locator(".highlight")).not_to_have_count(0)
        view = section.locator(".explorer-view")
        press(view, ".")
        expect(view.locator(".ex-say")).to_contain_text(" 1 of ")
        seen.append(section.locator("h2").inner_text().rstrip("#¶"))
    assert seen == headings


@pytest.mark.spec("H-10")
def test_the_search_works_from_disk(site: Path, page: Page) -> None:
    asked = elsewhere(page)
    page.goto((site / "index.html").as_uri())
    page.get_by_placeholder("Search").fill("log_softmax")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Search finished")).to_be_visible()  # the list no longer moves below a click
    page.get_by_role("link", name="explorer.log_softmax").first.click()
    expect(page.locator("[id='explorer.log_softmax']")).to_be_in_viewport()
    assert asked == []


@pytest.mark.spec("H-10")
@pytest.mark.parametrize(("words", "title"), [(words, title) for title, each in TASKS.items() for words in each])
def test_the_words_of_a_reader_find_the_guide(site: Path, page: Page, words: str, title: str) -> None:
    """The first result of the search is the guide, which begins with its question and has a program or a command."""
    page.goto((site / "index.html").as_uri())
    page.get_by_placeholder("Search").fill(words)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Search finished")).to_be_visible()  # the list no longer moves below a click
    first = page.locator("#search-results li a").first
    expect(first).to_contain_text(title)  # or a section of the guide
    first.click()
    expect(page.locator("h1")).to_contain_text(title)
    expect(page.locator("article p strong").first).to_contain_text("?")
    expect(page.locator("article .highlight")).not_to_have_count(0)


@pytest.mark.spec("H-10")
def test_the_guides_are_grouped_by_what_readers_want(site: Path, page: Page) -> None:
    """From the first page, two clicks in the navigation lead to each guide."""
    page.goto((site / "index.html").as_uri())
    page.locator(".sidebar-tree").get_by_role("link", name="How-to guides", exact=True).click()
    expect(page.locator("article h2")).to_have_count(5)
    for title in TASKS:
        expect(page.locator("article td").get_by_role("link", name=title, exact=True)).to_be_visible()


@pytest.mark.spec("H-10")
def test_views_follow_the_theme_of_the_page(site: Path, page: Page) -> None:
    page.goto((site / "index.html").as_uri())
    view = page.locator(".explorer-view")
    for theme in ("light", "dark"):
        page.evaluate("theme => void (document.body.dataset.theme = theme)", theme)
        expect(view).to_have_attribute("data-theme", theme)


@pytest.mark.spec("H-10")
def test_no_address_in_a_page_leads_to_a_missing_file(site: Path) -> None:
    """Also check the links and images of raw HTML, which Sphinx does not check."""
    missing = []
    for path in site.rglob("*.html"):
        for address in re.findall(r'(?:src|srcset|href)="([^"]+)"', path.read_text(encoding="utf-8")):
            parts = urlsplit(unescape(address))
            if not parts.scheme and not (path.parent / unquote(parts.path)).exists():
                missing.append((path.name, address))
    assert missing == []


@pytest.mark.spec("H-10")
def test_signatures_show_what_a_reader_can_write(site: Path) -> None:
    """No signature has placeholders for defaults or for the arguments of a layer."""
    texts = {path.stem: re.sub(r"<[^>]+>", "", path.read_text()) for path in (site / "reference").glob("*.html")}
    noise = re.compile(r"&lt;factory&gt;|inspect\._empty|\(\*args, \*\*kwargs\)")
    assert [name for name, text in texts.items() if noise.search(text)] == []
    assert "GRU(name, features, hidden, last=False, *, " in texts["training"]


@pytest.mark.spec("H-10")
def test_no_page_is_wider_than_a_phone(site: Path, open_page: Callable[..., Page]) -> None:
    page = open_page(viewport={"width": 390, "height": 844})
    wide = []
    for path in sorted(site.rglob("*.html")):
        page.goto(path.as_uri())
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wide.append(path.relative_to(site).as_posix())
    assert wide == []


@pytest.mark.spec("H-10")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(site: Path, open_page: Callable[..., Page], scheme: str) -> None:
    """Check all rules, also for views among the theme's styles, at the widths of a screen and of a phone."""
    for width in (1440, 390):
        page = open_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        for name in ("index", "docs/gallery", "docs/ci", "reference/options", "reference/explore_record_and_compare"):
            page.goto((site / f"{name}.html").as_uri())
            page.wait_for_function("""() => [...document.querySelectorAll("article pre")].every(
                (code) => !code.checkVisibility() // in closed details
                    || (code.scrollWidth > code.clientWidth) === code.hasAttribute("tabindex"))""")
            assert complaints(page, rules=rules_of(scheme)) == []


@pytest.mark.spec("H-10")
def test_a_view_is_as_high_as_the_space_reserved_for_it(site: Path, open_page: Callable[..., Page]) -> None:
    """There is no gap between a view and its text on a phone."""
    page = open_page(viewport={"width": 390, "height": 844})
    page.goto((site / "docs" / "gallery-programs.html").as_uri())
    place = page.locator(".book-place").first
    expect(place.locator(".explorer-view")).to_be_visible()
    assert place.evaluate("place => place.clientHeight - place.firstElementChild.clientHeight") <= 2
