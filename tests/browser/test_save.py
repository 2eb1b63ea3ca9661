"""The save menu: every format is downloaded under the model's name and opened."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

import explorer as ex
from explorer.record import from_json
from explorer.view.payload.view_payload import payload
from tests.browser.axe import complaints
from tests.browser.player import mount, press, tool
from tests.view import sample

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-14")]

SVG = "{http://www.w3.org/2000/svg}"
BUTTON = "save: picture, page …"
MODEL = Path(__file__).parents[2] / "assets" / "digits.pnnx.param"


def saved(view: Locator, form: str, folder: Path) -> Path:
    """Choose a format in the menu, and return the downloaded file."""
    tool(view, BUTTON).click()
    with view.page.expect_download() as download:
        view.get_by_role("menuitem", name=form).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def texts(path: Path) -> list[str]:
    """Return the words of a picture in drawing order."""
    return ["".join(text.itertext()) for text in ElementTree.parse(path).getroot().iter(f"{SVG}text")]


def drawn(view: Locator) -> list[str]:
    """Return the visible words of the graph on the page."""
    return view.locator(".ex-graph text").evaluate_all(
        "texts => texts.filter((text) => text.checkVisibility()).map((text) => text.textContent)"
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_saves_a_picture_of_the_step(show, tmp_path, theme):
    """The picture has the words, size and background of the canvas, and needs no style sheet."""
    view = show(dataclasses.replace(sample.mlp(), title="mlp"), position=3, theme=theme)
    press(view, "h")
    path = saved(view, "SVG", tmp_path)
    assert path.name == "mlp.svg"
    assert sorted(texts(path)) == sorted(drawn(view))
    root = ElementTree.parse(path).getroot()
    assert root.find(f"{SVG}title").text == "mlp"
    assert not any(name in element.attrib for element in root.iter() for name in ("class", "style", "data-key", "role"))
    assert "color(" not in path.read_text()
    assert "var(" not in path.read_text()
    ground = view.evaluate("view => getComputedStyle(view).backgroundColor")
    assert root.find(f"{SVG}rect").get("fill") == ground
    picture = Image.open(saved(view, "PNG", tmp_path))
    assert (tmp_path / "mlp.png").is_file()
    assert picture.size == (2 * int(root.get("width")), 2 * int(root.get("height")))
    colours = {colour for _, colour in picture.convert("RGB").getcolors(1 << 20)}
    assert tuple(map(int, ground[4:-1].split(","))) in colours
    assert len(colours) > 20


def test_a_picture_holds_what_is_out_of_sight(page, tmp_path):
    """The page has only visible elements of a large graph, but its picture has every node."""
    recording = sample.dag(2500)
    mount(page, payload(recording))
    view = page.locator(".explorer-view")
    page.evaluate("() => window.view.opening.all(true)")
    in_sight = view.locator(".ex-node").count()
    shapes = list(ElementTree.parse(saved(view, "SVG", tmp_path)).getroot().iter(f"{SVG}rect"))
    standing = page.evaluate(
        "() => [...window.view.placement.slots.keys()].filter((slot) => window.view.scene.slots.has(slot)).length"
    )
    assert in_sight < standing <= len(shapes)


def test_a_page_saves_itself_where_the_reader_stands(show, open_page, tmp_path):
    """The saved page is complete: it steps, shows the same contents, and has a picture for readers without scripts."""
    view = show(dataclasses.replace(sample.hostile(), title="page </script><b>"), position=0)
    press(view, ".")
    expect(view.page).to_have_url(re.compile("step=1"))
    path = saved(view, "HTML", tmp_path)
    again = open_page()
    again.goto(path.as_uri())
    other = again.locator(".explorer-view")
    expect(other.locator(".ex-say")).to_have_text(view.locator(".ex-say").inner_text())
    press(other, "End")
    expect(other.locator(".ex-say")).not_to_be_empty()
    once_more = saved(other, "HTML", tmp_path / "again")
    assert once_more.name == path.name
    silent = open_page(java_script_enabled=False)
    silent.goto(path.as_uri())
    expect(silent.locator("#explorer svg")).to_be_visible()


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("digits (? = 1)", "digits-1"),
        ("../../etc/passwd", "etc-passwd"),
        ("模型 v2", "模型-v2"),
        ("\u202e<b>", "u202e-b"),
        ("", "recording"),
    ],
)
def test_a_files_name_is_the_models(show, tmp_path, title, name):
    view = show(dataclasses.replace(sample.mlp(), title=title))
    assert saved(view, "SVG", tmp_path).name == f"{name}.svg"


def test_the_menu_is_worked_by_keyboard(show):
    view = show(sample.mlp())
    button = tool(view, BUTTON)
    items = view.get_by_role("menuitem")
    button.focus()
    view.page.keyboard.press("Enter")
    expect(items.first).to_be_focused()
    expect(button).to_have_attribute("aria-expanded", "true")
    view.page.keyboard.press("ArrowDown")
    expect(items.nth(1)).to_be_focused()
    assert complaints(view.page) == []
    view.page.keyboard.press("Escape")
    expect(button).to_be_focused()
    expect(view.get_by_role("menu")).to_be_hidden()
    view.page.keyboard.press("Enter")
    expect(items.first).to_be_focused()
    with view.page.expect_download():
        view.page.keyboard.press("Enter")
    expect(view.get_by_role("menu")).to_be_hidden()


def test_a_page_says_where_its_data_can_be_had(show):
    """A page has only a recording's display form; the menu shows the line of Python that saves a loadable one."""
    view = show(sample.mlp())
    button = tool(view, BUTTON)
    button.focus()
    view.page.keyboard.press("Enter")
    expect(view.get_by_role("menuitem").first).to_be_focused()
    view.page.keyboard.press("End")
    item = view.get_by_role("menuitem", name="JSON")
    expect(item).to_be_focused()
    expect(item).to_have_attribute("aria-disabled", "true")
    expect(item).to_contain_text('view.save("model.json")')
    asked = []
    view.page.on("download", lambda download: asked.append(download))
    view.page.keyboard.press("Enter")
    expect(item).to_be_visible()
    assert not asked
    assert complaints(view.page) == []


def test_a_picture_that_cannot_be_made_is_said(show):
    view = show(sample.mlp())
    view.page.evaluate("() => (HTMLCanvasElement.prototype.toBlob = function (done) { done(null); })")
    tool(view, BUTTON).click()
    view.get_by_role("menuitem", name="PNG").click()
    expect(view.get_by_role("alert")).to_contain_text("No PNG was saved")


@pytest.mark.soak
def test_a_widget_saves_by_its_kernel_what_a_page_cannot_write(notebook, open_page, tmp_path):
    """In JupyterLab the kernel writes pages and recordings; without it only pictures can be saved."""
    book = notebook(f"import explorer as ex\nview = ex.open({str(MODEL)!r}).explore()\nview")
    view = book.view()
    press(view, "]", ".")
    book.says("print(view.step)", "1\n")
    assert saved(view, "SVG", tmp_path).stat().st_size > 5_000
    assert Image.open(io.BytesIO(saved(view, "PNG", tmp_path).read_bytes())).width > 300
    recording = from_json(json.loads(saved(view, "JSON", tmp_path).read_text(encoding="utf-8")))
    assert recording.title == ex.open(MODEL).explore().recording.title
    page: Page = open_page()
    page.goto(saved(view, "HTML", tmp_path).as_uri())
    expect(page.locator(".explorer-view .ex-say")).to_contain_text("decision 1 of 1")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"digits-unknown-length-1.{form}" for form in ("html", "json", "png", "svg")
    ]
    book.restart()
    expect(view.get_by_text("no kernel")).to_be_visible()
    tool(view, BUTTON).click()
    expect(view.get_by_role("menuitem", name="HTML")).to_be_disabled()
    expect(view.get_by_role("menuitem", name="JSON")).to_be_disabled()
    expect(view.get_by_role("menuitem", name="SVG")).to_be_enabled()
