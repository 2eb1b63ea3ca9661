"""Accessibility: axe finds no violations, the keyboard reaches everything, and text is legible in every state."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.view.compare.comparison_html import page_html
from explorer.view.export.html_page import html
from tests.browser.axe import complaints, rules_of
from tests.browser.player import node, press, resize
from tests.golden.programs import PROGRAMS, recorded
from tests.support.representatives import representatives
from tests.view import sample

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-13")]

THEMES = ("light", "dark")
STATES = {
    "at first": (),
    "a node selected": ("Enter",),
    "search": ("/", "a"),
    "help": ("Escape", "?"),
    "the end, with heat": ("Escape", "End", "h"),
}


@pytest.mark.parametrize(
    ("wide", "theme"),
    representatives(product((1440, 1000, 600, 320), THEMES), [(1440, "light"), (320, "light"), (600, "dark")]),
)
def test_axe_finds_nothing_on_a_page(open_page, tmp_path, wide, theme):
    (tmp_path / "page.html").write_text(html(sample.mlp(), position=3, theme=theme), encoding="utf-8")
    page = open_page(viewport={"width": wide, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())
    results = {}
    for state, keys in STATES.items():
        for key in keys:
            page.keyboard.press(key)
        results[state] = complaints(page, rules=rules_of(theme))
    assert results == {state: [] for state in STATES}


@pytest.mark.parametrize(
    ("wide", "theme"), representatives(product((1440, 600), THEMES), [(1440, "light"), (600, "dark")])
)
def test_axe_finds_nothing_in_the_tree_of_boxes_and_in_a_trace(open_page, tmp_path, wide, theme):
    """Check a scrolling tree with open, closed, selected and focused rows, and traces in both directions."""
    (tmp_path / "page.html").write_text(html(sample.scopes(6, 10), theme=theme), encoding="utf-8")
    page = open_page(viewport={"width": wide, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())
    view = page.locator(".explorer-view")
    press(view, "1", "s")
    expect(view.get_by_role("treeitem").first).to_be_focused()
    assert view.get_by_role("tree").evaluate("tree => tree.scrollHeight > 1.5 * tree.clientHeight")
    assert complaints(page, rules=rules_of(theme)) == []
    for key in ("ArrowDown", "Enter", "End"):
        page.keyboard.press(key)
    assert complaints(page, rules=rules_of(theme)) == []
    (tmp_path / "page.html").write_text(html(sample.mlp(), theme=theme), encoding="utf-8")
    page.reload()
    press(view, "Enter")
    for key in ("i", "r"):
        press(view, key)
        expect(view).to_have_class(re.compile("ex-tracing"))
        assert complaints(page, rules=rules_of(theme)) == []


def planned(activation):
    """Return a plan of two layers, each in a scope."""
    value = ex.tensor(np.ones((3, 4), np.float32), name="x")
    for level in range(2):
        with ex.scope(f"block{level}"):
            value = activation(value @ ex.tensor(np.ones((4, 4), np.float32), name=f"w{level}"))
    plan = ex.EvalPlan()
    plan.register(ex.softmax(value))
    return plan.prepare()


@pytest.mark.parametrize(
    ("wide", "theme"), representatives(product((1440, 1000, 600), THEMES), [(600, "light"), (1440, "dark")])
)
def test_axe_finds_nothing_on_a_pair(open_page, tmp_path, wide, theme):
    compared = planned(ex.tanh).compare(planned(ex.sin))
    (tmp_path / "pair.html").write_text(page_html(compared, theme=theme), encoding="utf-8")
    page = open_page(viewport={"width": wide, "height": 900})
    page.goto((tmp_path / "pair.html").as_uri())
    expect(page.locator(".ex-differences span").first).to_be_visible()
    assert complaints(page, rules=rules_of(theme)) == []
    page.keyboard.press("d")
    assert complaints(page, rules=rules_of(theme)) == []


@pytest.mark.parametrize("theme", representatives(["Light", "Dark"], ["Light"]))
def test_axe_finds_nothing_in_a_widget(notebook, theme):
    book = notebook(
        "from explorer.view.widget.widget import GraphView\nfrom tests.view import sample\nGraphView(sample.mlp())",
        theme=f"JupyterLab {theme}",
    )
    view = book.view()
    for wide in (1440, 1000, 600):
        resize(book.page, wide)
        assert complaints(book.page, ".explorer-view", rules_of(theme)) == []
    press(view, ".", "Enter")
    assert complaints(book.page, ".explorer-view", rules_of(theme)) == []


WALK_BY_ARROWS = """() => {
    const standing = [...document.querySelectorAll(".ex-graph [data-key]:not(.ex-none)")];
    const wanted = standing.map((item) => item.dataset.key);
    const seen = [document.activeElement.dataset.key];
    for (const key of ["ArrowLeft", "ArrowRight"]) {
        for (let turn = 0; turn <= wanted.length; turn++) {
            const pressed = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
            document.activeElement.dispatchEvent(pressed);
            const now = document.activeElement.dataset.key;
            if (now === seen.at(-1)) break;
            seen.push(now);
        }
    }
    return [wanted, seen];
}"""


@pytest.mark.spec("V-13", headline=True)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_arrow_keys_reach_every_node_and_box(show, name):
    """Reach every node and box with the keyboard, with all boxes open or closed."""
    view = show(recorded(name))
    for key in ("e", "c"):
        press(view, key)
        wanted, seen = view.page.evaluate(WALK_BY_ARROWS)
        assert set(seen) == set(wanted)
        view.page.keyboard.press("ArrowLeft")  # keys have the same effect as these events
        assert view.page.evaluate("document.activeElement.dataset.key") == seen[-2]


BESIDE = """() => {
    const items = [...document.querySelectorAll(".ex-graph [data-key]:not(.ex-none, .ex-open)")];
    const edges = new Map(items.map((item) => [item, item.querySelector(".ex-shape").getBoundingClientRect()]));
    return items.flatMap((item) => {
        const { right, top, bottom } = edges.get(item);
        const [near] = items.filter((other) => {
            const rect = edges.get(other);
            return rect.left >= right && rect.top < bottom && rect.bottom > top;
        }).sort((one, other) => edges.get(one).left - edges.get(other).left);
        if (!near) return [];
        item.focus();
        const pressed = new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true, cancelable: true });
        item.dispatchEvent(pressed);
        return [[near.getAttribute("aria-label"), document.activeElement.getAttribute("aria-label")]];
    });
}"""


@pytest.mark.spec("V-13")
@pytest.mark.parametrize("name", ["perceptron", "batch"])
def test_the_right_arrow_goes_to_the_item_at_the_right(show, name):
    """The item may be a little higher or lower; only at the end of a row does the arrow go to the next row."""
    view = show(recorded(name))
    press(view, "c" if name == "batch" else "Home")
    pairs = view.page.evaluate(BESIDE)
    assert pairs
    for wanted, reached in pairs:
        assert wanted == reached


def test_down_goes_into_an_open_box_and_up_out_of_it(show):
    view = show(sample.resnet())
    press(view, "e")
    opened = view.locator(".ex-box.ex-open").first
    opened.focus()
    view.page.keyboard.press("ArrowDown")
    assert view.page.evaluate("document.activeElement.dataset.key") != opened.get_attribute("data-key")
    (x, y, _, bottom), (inner_x, inner_y, _, inner_bottom) = opened.evaluate(
        """opened => [opened, document.activeElement].map((item) => {
            const { left, top, right, bottom } = item.getBoundingClientRect();
            return [left, top, right, bottom];
        })"""
    )
    assert x <= inner_x
    assert y <= inner_y
    assert inner_bottom <= bottom


def test_the_canvas_alone_takes_the_keys_of_a_screen_reader(show):
    """Elsewhere tables, lists and text are browsed with the screen reader's own keys."""
    view = show(sample.mlp())
    applications = view.page.locator("[role=application]")
    expect(applications).to_have_count(1)
    assert "ex-graph" in applications.get_attribute("class")
    assert view.get_attribute("role") == "group"


def test_the_steps_come_before_the_panel_and_each_group_is_one_stop(show):
    view = show(sample.mlp(), position=3)
    view.locator("[data-key][tabindex='0']").focus()
    stops = []
    for _ in range(8):
        view.page.keyboard.press("Tab")
        if not view.locator(".ex-term:focus").count():  # a term in the text has an explanation
            stops.append(view.page.evaluate("document.activeElement.getAttribute('aria-label')"))
    assert stops[:4] == ["a stage back ([)", "speed of play", "moment", "size of the panel"]
    view.locator(".ex-transport button").first.focus()
    view.page.keyboard.press("ArrowRight")
    expect(view.get_by_role("button", name="a step back")).to_be_focused()
    assert view.locator(".ex-transport button[tabindex='0']").count() == 1
    assert view.locator(".ex-decisions button[tabindex='0']").count() == 1
    first = view.locator(".ex-decisions button[tabindex='0']")
    first.focus()
    view.page.keyboard.press("Home")
    view.page.keyboard.press("ArrowDown")
    expect(view.locator(".ex-decisions button").nth(1)).to_be_focused()


def test_a_selection_is_told_and_an_item_says_what_it_reads(show):
    view = show(sample.mlp(), position=3)
    heard = view.locator(".ex-heard")
    expect(heard).to_have_text("")
    node(view, "log-softmax").focus()
    description = node(view, "log-softmax").get_attribute("aria-description")
    assert re.match(r"reads .+; read by .+", description)
    view.page.keyboard.press("Enter")
    expect(heard).to_have_text(re.compile(r"selected log-softmax: \d+ decisions?, \d+ declined"))
    view.page.keyboard.press("Escape")
    expect(heard).to_have_text("nothing is selected")


def test_the_dialog_keeps_tab_and_gives_the_focus_back(show):
    view = show(sample.mlp())
    press(view, "?")
    help_box = view.get_by_role("dialog", name="outlines and keys")
    for key in ("Tab", "Tab", "Shift+Tab"):
        view.page.keyboard.press(key)
        assert help_box.evaluate("box => box.contains(document.activeElement)")
    view.page.keyboard.press("Escape")
    expect(view.locator("[data-key]:focus")).to_have_count(1)


CONTRASTS = """view => {
    const parse = (css) => {
        const [r, g, b, a = 1] = css.match(/[\\d.]+/g).map(Number);
        return css.startsWith("color(") ? [255 * r, 255 * g, 255 * b, a] : [r, g, b, a];
    };
    const over = ([r, g, b, a], under) => [r, g, b].map((part, at) => part * a + under[at] * (1 - a));
    const light = (colour) => {
        const [r, g, b] = colour.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ratio = (one, other) => (Math.max(light(one), light(other)) + 0.05) / (Math.min(light(one), light(other)) + 0.05);
    const painted = (element, under) => {
        const style = getComputedStyle(element);
        if (style.fill === "none") return under;
        const colour = parse(style.fill);
        colour[3] *= Number(style.fillOpacity) * Number(style.opacity);
        return over(colour, under);
    };
    const root = getComputedStyle(view);
    const ground = over(parse(root.backgroundColor), [255, 255, 255]);
    const paint = (name) => {
        const probe = document.createElement("i");
        probe.style.color = `var(${name})`;
        view.append(probe);
        const colour = parse(getComputedStyle(probe).color).slice(0, 3);
        probe.remove();
        return colour;
    };
    const grounds = [ground, paint("--ex-panel")];
    const kernels = [paint("--ex-fused"), paint("--ex-accent-bg")];
    const found = [];
    for (const text of view.querySelectorAll(".ex-graph text")) {
        if (!text.textContent || !text.checkVisibility()) continue;
        const own = [...text.parentNode.children].find((part) => part.tagName === "rect" && !part.matches(".ex-under, .ex-heat"));
        const isInside = own && !text.matches(".ex-number, .ex-title");
        const under = isInside ? [...grounds, ...kernels].map((each) => painted(own, each)) : text.matches(".ex-frame-title, .ex-port, .ex-number") ? grounds : grounds.map((each) => (own ? painted(own, each) : each));
        const least = Math.min(...under.map((each) => ratio(painted(text, each), each)));
        if (least < 4.5) found.push(`${text.textContent} (${text.getAttribute("class")} of ${text.parentNode.getAttribute("class")}): ${least.toFixed(2)}`);
    }
    return found;
}"""  # noqa: E501  (a table of colours: line breaks would hide it)


@pytest.mark.parametrize(
    ("make", "theme"),
    representatives(
        product((sample.mlp, sample.transformer, sample.resnet), THEMES),
        [(sample.mlp, "light"), (sample.mlp, "dark"), (sample.transformer, "light")],
    ),
)
def test_every_text_of_the_canvas_is_legible_at_every_moment(show, theme, make):
    """Check contrasts of at least 4.5 : 1, computed from painted colours, with and without heat, open and closed."""
    recording = make()
    view = show(recording, theme=theme)
    press(view, "e")
    moments = 1 + int(view.locator(".ex-strip input").get_attribute("max"))
    for heat in (False, True):
        press(view, *["h"] * heat, "Home")
        for moment in range(0, moments, max(1, moments // 12)):
            press(view, *["."] * (max(1, moments // 12) if moment else 0))
            assert view.evaluate(CONTRASTS) == [], moment
        press(view, "End")
        assert view.evaluate(CONTRASTS) == []


def test_forced_colours_mark_the_stage_and_links(open_page, tmp_path):
    page = open_page(forced_colors="active")
    (tmp_path / "page.html").write_text(html(sample.mlp(), position=3), encoding="utf-8")
    page.goto((tmp_path / "page.html").as_uri())
    grounds = page.evaluate(
        """() => ["[aria-current]", ".ex-chip:not([aria-current])"].map((chip) =>
            getComputedStyle(document.querySelector(`.ex-rail ${chip}`)).backgroundColor)"""
    )
    assert grounds[0] != grounds[1]
    assert page.locator(".ex-link").first.evaluate("link => getComputedStyle(link).textDecorationLine") == "underline"
