"""Sizes of a view's parts: splitters, full screen, narrow windows, and views in their own tab."""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.view.export.html_page import html
from explorer.view.layout.placed_model import CELL, PAGE, draw
from explorer.view.payload.view_payload import payload
from tests.browser.player import mount, node, press, reload_until, resize, tool
from tests.support.representatives import representatives
from tests.view import sample

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-13")]

MODELS = Path(__file__).parents[2] / "assets" / "models"
SHOW = """
from explorer.view.widget.widget import GraphView
from tests.view import sample
view = GraphView(sample.mlp())
view
"""


def width(found):
    return round(found.bounding_box()["width"])


def test_the_panel_grows_by_arrow_keys_and_by_dragging_and_a_double_click_resets_it(show):
    view = show(sample.mlp())
    bar, panel = view.get_by_role("separator", name="size of the panel"), view.locator(".ex-why")
    before = width(panel)
    bar.focus()
    expect(bar).to_have_attribute("aria-orientation", "vertical")
    view.page.keyboard.press("ArrowLeft")
    assert width(panel) == before + 16
    expect(bar).to_have_attribute("aria-valuenow", str(before + 16))
    at = bar.bounding_box()
    view.page.mouse.move(at["x"] + 4, at["y"] + 50)
    view.page.mouse.down()
    view.page.mouse.move(at["x"] - 96, at["y"] + 50)
    view.page.mouse.up()
    assert width(panel) == before + 116
    bar.focus()
    view.page.keyboard.press("Home")
    assert width(panel) == int(bar.get_attribute("aria-valuemin"))
    view.page.keyboard.press("End")
    assert width(panel) == int(bar.get_attribute("aria-valuemax"))
    assert width(view.locator(".ex-stage")) >= 200
    bar.dblclick()
    assert width(panel) == before


@pytest.mark.stores
def test_what_a_reader_chose_is_remembered(show):
    view = show(sample.mlp())
    panel = view.locator(".ex-why")
    view.get_by_role("separator", name="size of the panel").focus()
    view.page.keyboard.press("Shift+ArrowLeft")
    chosen = width(panel)
    reload_until(view, lambda: expect(panel).to_have_css("width", f"{chosen}px", timeout=1000))
    press(view, "w")
    expect(panel).to_be_hidden()
    reload_until(view, lambda: expect(panel).to_be_hidden(timeout=1000))
    press(view, "w")
    assert width(panel) == chosen


def test_full_screen_is_filled_and_left(show):
    view = show(sample.mlp())
    tool(view, "full screen").click()
    view.page.wait_for_function("document.fullscreenElement?.classList.contains('explorer-view')")
    box = view.bounding_box()
    assert (box["x"], box["y"]) == (0, 0)
    assert box["height"] == view.page.evaluate("innerHeight")
    press(view, "F")
    view.page.wait_for_function("document.fullscreenElement === null")


@pytest.mark.parametrize(
    ("make", "wide"),
    representatives(
        product((sample.mlp, sample.resnet), (1440, 1000, 700, 600, 320)),
        [(sample.mlp, 320), (sample.mlp, 1440), (sample.resnet, 700), (sample.resnet, 600)],
    ),
)
def test_nothing_is_cut_off_or_lies_over_another_part(show, wide, make):
    """Every button is inside the view and no two parts overlap, even at 320 px (400 % zoom)."""
    view = show(make(), position=3)
    resize(view.page, wide)
    parts = ".ex-rail, .ex-tools, .ex-saying, .ex-stage, .ex-why, .ex-transport, .ex-strip"
    overlaps = view.evaluate(
        """(view, parts) => {
            const outer = view.getBoundingClientRect(), found = [];
            const shown = [...view.querySelectorAll(parts)].filter((one) => one.checkVisibility());
            const rects = shown.map((one) => [one.className, one.getBoundingClientRect()]);
            for (const [name, r] of rects) {
                const inside = r.left >= outer.left && r.right <= outer.right + 1 && r.bottom <= outer.bottom + 1;
                if (!inside) found.push(`${name} is cut`);
                for (const [other, o] of rects) {
                    const beside = r.right <= o.left + 1 || o.right <= r.left + 1;
                    const above = r.bottom <= o.top + 1 || o.bottom <= r.top + 1;
                    if (name < other && !beside && !above) found.push(`${name} over ${other}`);
                }
            }
            for (const button of view.querySelectorAll(".ex-tools button, .ex-transport button")) {
                const r = button.getBoundingClientRect();
                if (r.right > outer.right || r.width < 24) found.push(button.title);
            }
            return found;
        }""",
        parts,
    )
    assert overlaps == []
    assert view.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_sentence_that_does_not_fit_is_scrolled_by_keyboard(show):
    """A sentence takes up to a quarter of the view's height; a longer one scrolls."""
    recording = sample.mlp()
    recording.decisions[2] = replace(recording.decisions[2], reason=recording.decisions[2].reason + " and so on" * 60)
    view = show(recording, position=3)
    expect(view.locator(".ex-say")).not_to_have_attribute("tabindex", "0")
    resize(view.page, 320, 700)
    expect(view.locator(".ex-say")).to_have_attribute("tabindex", "0")


def test_a_graph_that_stays_legible_is_seen_whole_at_first(show):
    """A graph that fits at a scale of 0.75 or more is shown completely, a larger one legibly from its top."""
    view = show(sample.mlp())
    scale = float(re.search(r"scale\(([\d.]+)\)", view.locator(".ex-graph").get_attribute("style"))[1])
    assert 0.75 <= scale <= 1.25
    stage = view.locator(".ex-stage").bounding_box()
    for item in view.locator(".ex-graph [data-key]").all():
        at = item.bounding_box()
        assert at["y"] >= stage["y"]
        assert at["y"] + at["height"] <= stage["y"] + stage["height"]
    view = show(sample.resnet(), whole=True)
    scale = float(re.search(r"scale\(([\d.]+)\)", view.locator(".ex-graph").get_attribute("style"))[1])
    assert scale > 0.5


@pytest.mark.stores
def test_the_height_of_a_view_in_a_notebook_is_dragged(open_page, tmp_path):
    page = open_page()
    text = (
        html(sample.mlp())
        .replace("--ex-height:max(420px,100vh) !important;", "")
        .replace("#explorer .ex-height-bar{display:none}", "")
    )
    (tmp_path / "cell.html").write_text(text, encoding="utf-8")
    page.goto((tmp_path / "cell.html").as_uri())
    view = page.locator(".explorer-view")
    assert view.bounding_box()["height"] == 560
    resize(page, 640)
    expect(view).to_have_class(re.compile("ex-narrow"))
    assert view.bounding_box()["height"] == 560
    bar = view.get_by_role("separator", name="height of the view")
    bar.focus()
    page.keyboard.press("ArrowUp")
    assert view.bounding_box()["height"] == 544
    reload_until(view, lambda: expect(view).to_have_css("height", "544px", timeout=1000))


def test_a_view_of_a_notebook_opens_in_a_tab_of_its_own(notebook):
    book = notebook(SHOW)
    view = book.view()
    for number in (1, 2):
        press(view, ".")
        expect(view.locator(".ex-say")).to_contain_text(f"decision {number} of")
    with book.page.expect_popup() as opened:
        tool(view, "open in its own tab").click()
    tab = opened.value
    expect(tab.locator(".explorer-view .ex-node").first).to_be_visible()
    expect(tab.locator(".ex-say")).to_contain_text("decision 2 of")
    tab.close()


def test_a_tab_of_its_own_stands_where_the_reader_does_while_the_kernel_is_busy(notebook):
    """The request for the page overtakes the steps, which JupyterLab delays until the kernel is idle."""
    book = notebook(SHOW)
    view = book.view()
    book.keep_busy(2)
    for number in (1, 2, 3):
        press(view, ".")
        expect(view.locator(".ex-say")).to_contain_text(f"decision {number} of")
    with book.page.expect_popup() as opened:
        tool(view, "open in its own tab").click()
    expect(opened.value.locator(".ex-say")).to_contain_text("decision 3 of")
    opened.value.close()


def test_the_header_is_one_line_at_every_width(show):
    """Five tools have a button; the others are in a menu with labels and keys."""
    view = show(sample.resnet())
    for wide in (1440, 1000, 600, 320):
        resize(view.page, wide)
        assert view.locator(".ex-top").bounding_box()["height"] <= 34
        assert view.locator(".ex-tools > button").count() == 5
        assert view.locator(".ex-saying").bounding_box()["height"] == 29
    tool(view, "close all boxes").click()
    expect(view.locator(".ex-box.ex-open")).to_have_count(0)
    expect(view.get_by_role("group", name="more tools")).to_be_hidden()


@pytest.mark.spec("V-26", headline=True)
@pytest.mark.parametrize("wide", [1440, 1280, 1000, 600])
def test_the_canvas_has_most_of_the_view(show, wide):
    """Give the graph at least 60 % of a view of usual height, even in a cell that is 600 px wide."""
    view = show(sample.resnet())
    resize(view.page, wide, 560)
    stage, outer = view.locator(".ex-stage").bounding_box(), view.bounding_box()
    assert stage["width"] * stage["height"] >= 0.6 * outer["width"] * outer["height"]


def test_the_panel_of_a_narrow_view_is_a_drawer_that_a_selection_opens(show):
    """The drawer covers the canvas, which does not change; the selection is not covered."""
    view = show(sample.mlp())
    panel = view.locator(".ex-why")
    for wide in (1000, 600):
        resize(view.page, wide, 640)
        expect(panel).to_be_hidden()
        before = view.locator(".ex-stage").bounding_box()
        node(view, "tanh").click()
        expect(panel).to_be_visible()
        assert view.locator(".ex-stage").bounding_box() == before
        drawer, item = panel.bounding_box(), node(view, "tanh").bounding_box()
        assert item["x"] + item["width"] <= drawer["x"] or item["y"] + item["height"] <= drawer["y"]
        press(view, "Escape")
        expect(panel).to_be_hidden()
        press(view, "w")
        expect(panel).to_be_visible()
        press(view, "w")
        expect(panel).to_be_hidden()


def test_a_fitted_graph_is_not_covered_by_the_drawer(show):
    """Fit shows the whole graph next to the drawer or above it, and it remains fitted when the window changes."""
    view = show(sample.mlp())
    for wide, high in ((1000, 640), (640, 480)):
        resize(view.page, wide, high)
        press(view, "w", "f")
        for height in (high, high + 60):
            resize(view.page, wide, height)
            drawer = view.locator(".ex-beside").bounding_box()
            for item in view.locator(".ex-node .ex-shape").all():
                rect = item.bounding_box()
                assert rect["x"] + rect["width"] <= drawer["x"] or rect["y"] + rect["height"] <= drawer["y"]
        press(view, "w")


@pytest.mark.spec("V-27", headline=True)
def test_the_wheel_stops_at_the_edge_of_the_graph(show):
    """Let the wheel pan a graph that is larger than its canvas, up to its edge, and otherwise scroll the page."""
    view = show(sample.resnet(), whole=True)
    moved = """(stage, y) => {
        const event = new WheelEvent("wheel", { deltaY: y, bubbles: true, cancelable: true });
        stage.dispatchEvent(event);
        return event.defaultPrevented;
    }"""
    stage = view.locator(".ex-stage")
    press(view, "f", *"+" * 9)
    turned = [stage.evaluate(moved, 400) for _ in range(40)]
    assert turned[0]
    assert not turned[-1]
    last = view.locator(".ex-graph [data-key]").last.bounding_box()
    outer = stage.bounding_box()
    assert last["y"] < outer["y"] + outer["height"]
    assert stage.evaluate(moved, -400)
    press(view, "f")
    assert not stage.evaluate(moved, 400)


def test_a_graph_that_does_not_fit_stays_in_the_middle_of_a_window_that_gets_narrower(show):
    """Across the flow the graph stays centered; along the flow its beginning stays visible."""
    view = show(sample.resnet())
    root = view.locator(".ex-graph [data-key]").first

    def shifts():
        stage, node = view.locator(".ex-stage").bounding_box(), root.bounding_box()
        middle = node["x"] + node["width"] / 2 - stage["x"] - stage["width"] / 2
        return round(middle), round(node["y"] - stage["y"])

    resize(view.page, 1440)
    across, along = shifts()
    for wide in (1000, 480, 320, 1440):
        resize(view.page, wide)
        now_across, now_along = shifts()
        assert abs(now_across - across) <= 2, wide
        assert now_along <= along + 2, wide


COVERED = """(part) => {
    const map = part.getBoundingClientRect();
    const names = [];
    for (const shape of document.querySelectorAll(".ex-node, .ex-closed")) {
        const { left, top, right, bottom } = shape.getBoundingClientRect();
        if (left < map.right && right > map.left && top < map.bottom && bottom > map.top) names.push(shape.ariaLabel);
    }
    return names;
}"""


@pytest.mark.parametrize("wide", [600, 1000])
def test_a_graph_that_does_not_fit_begins_with_whole_nodes(show, wide):
    """The test's graph has an input far to the left of its center."""
    page = show(sample.mlp()).page
    resize(page, wide, 800)
    view = show(ex.open(MODELS / "lstm.onnx").preview_plan().recording, whole=True)
    stage = view.locator(".ex-stage").bounding_box()
    for name in ("x,", "emb", "Transpose"):
        shape = view.locator(
            f'.ex-graph [aria-label^="{name}"], .ex-graph [aria-label^="file {name}"]'
        ).first.bounding_box()
        assert stage["x"] <= shape["x"]
        assert shape["x"] + shape["width"] <= stage["x"] + stage["width"]


def test_the_small_map_stands_in_a_corner_where_it_covers_no_node(show):
    page = show(sample.mlp()).page
    resize(page, 1000, 700)
    view = show(ex.open(MODELS / "lstm.onnx").preview_plan().recording, whole=True)
    expect(view.locator(".ex-minimap")).to_be_visible()
    assert view.locator(".ex-minimap").evaluate(COVERED) == []


@pytest.mark.spec("V-25")
def test_the_legend_is_in_a_corner_where_it_covers_no_node(show):
    """If every corner has a node, the legend and the map are transparent."""
    page = show(sample.mlp()).page
    resize(page, 1000, 700)
    view = show(ex.open(MODELS / "lstm.onnx").preview_plan().recording, whole=True)
    press(view, "f", "h")
    legend = view.locator(".ex-legend")
    expect(legend).to_be_visible()
    page.wait_for_function(f"(part) => !({COVERED})(part).length", arg=legend.element_handle())
    expect(legend).not_to_have_class(re.compile("ex-covering"))
    mount(page, payload(sample.mlp(), height=640))
    page.evaluate("view.heat.choose(view.heat.known[0])")
    page.evaluate(
        "{ const [[x, y, w, h]] = view.placement.slots.values(); view.camera.stand(20, x + w / 2, y + h / 2); }"
    )
    for part in (page.locator(".ex-legend"), page.locator(".ex-minimap")):
        expect(part).to_have_class(re.compile("ex-covering"))
        assert float(part.evaluate("(part) => getComputedStyle(part).opacity")) < 0.5


def test_the_small_map_is_not_drawn_over_a_small_canvas(show):
    view = show(sample.resnet(), whole=True)
    expect(view.locator(".ex-minimap")).to_be_visible()
    resize(view.page, 360, 600)
    expect(view.locator(".ex-minimap")).to_be_hidden()
    resize(view.page, 1280, 800)
    expect(view.locator(".ex-minimap")).to_be_visible()


@pytest.mark.spec("V-24")
def test_a_page_opens_at_first_what_fits_into_its_window(show):
    """A large window shows the blocks of the encoder; in a small one they are closed, and the graph is whole."""
    recording = ex.open(MODELS / "encoder.onnx").preview_plan().recording
    drawing = draw(recording)
    for (width, height), frame in (((1440, 900), PAGE), ((1000, 560), CELL)):
        view = show(recording)
        resize(view.page, width, height)
        view.page.reload()
        expect(view.locator(".ex-box.ex-open")).to_have_count(len(drawing.open_boxes(frame)) - 1)
        assert "open=" not in view.page.url
    assert drawing.open_boxes(CELL) < drawing.open_boxes(PAGE)
