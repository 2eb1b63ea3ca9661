"""The tree of boxes next to the canvas: WAI-ARIA keys, synchronisation with the canvas, and stored state."""

import re

import pytest
from playwright.sync_api import expect

from explorer.view.export.html_page import html
from explorer.view.payload.view_payload import payload
from tests.browser.player import mount, press, reload_until, resize, tool
from tests.view import sample

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-8")]


def rows(view):
    return view.get_by_role("treeitem")


def names(view):
    return view.evaluate("view => [...view.querySelectorAll('.ex-tree-name')].map((name) => name.textContent)")


@pytest.fixture
def tree(show):
    """Return a view with closed boxes and its tree, whose first row has the focus."""
    view = show(sample.transformer())
    press(view, "0", "s")
    expect(rows(view).first).to_be_focused()
    return view


@pytest.mark.stores
def test_a_graph_without_boxes_says_that_it_has_no_tree(show):
    """The key changes no setting, which all views of the page would share."""
    view = show(sample.mlp())
    press(view, "s")
    text = "This graph has no boxes, so there is no tree of boxes."
    expect(view.locator(".ex-say")).to_have_text(text, use_inner_text=True)
    assert "tree" not in (view.page.evaluate("localStorage.getItem('explorer.sizes')") or "")


def test_it_is_hidden_until_it_is_asked_for(show):
    view = show(sample.transformer())
    expect(view.get_by_role("tree")).to_have_count(0)
    tool(view, "show or hide the tree of boxes").click()
    expect(view.get_by_role("tree")).to_be_visible()
    tool(view, "show or hide the tree of boxes").click()
    expect(view.get_by_role("tree")).to_have_count(0)


@pytest.mark.stores
def test_its_width_is_dragged_remembered_and_reset(tree):
    def width():
        return round(tree.get_by_role("tree").bounding_box()["width"])

    bar = tree.get_by_role("separator", name="width of the tree")
    before, canvas = width(), tree.locator(".ex-stage").bounding_box()["width"]
    place = bar.bounding_box()
    tree.page.mouse.move(place["x"] + 4, place["y"] + 50)
    tree.page.mouse.down()
    tree.page.mouse.move(place["x"] + 84, place["y"] + 50)
    tree.page.mouse.up()
    assert width() == before + 80
    assert round(tree.locator(".ex-stage").bounding_box()["width"]) == round(canvas) - 80
    bar.focus()
    tree.page.keyboard.press("End")
    assert tree.locator(".ex-stage").bounding_box()["width"] >= 240
    tree.page.keyboard.press("Home")
    least = width()
    assert 0 < least < before
    reload_until(tree, lambda: expect(tree.get_by_role("tree")).to_have_css("width", f"{least}px", timeout=1000))
    bar.dblclick()
    assert width() == before
    press(tree, "s")
    expect(bar).to_be_hidden()


def test_its_keys_open_boxes_on_the_canvas(tree):
    keyboard = tree.page.keyboard
    outermost = names(tree)
    keyboard.press("ArrowRight")
    expect(rows(tree).first).to_have_attribute("aria-expanded", "true")
    expect(tree.locator(".ex-box.ex-open")).to_have_count(1)
    assert len(names(tree)) > len(outermost)
    expect(rows(tree).first).to_be_focused()
    keyboard.press("ArrowRight")
    expect(rows(tree).nth(1)).to_be_focused()
    expect(rows(tree).nth(1)).to_have_attribute("aria-level", "2")
    keyboard.press("ArrowLeft")
    expect(rows(tree).first).to_be_focused()
    keyboard.press("ArrowLeft")
    expect(tree.locator(".ex-box.ex-open")).to_have_count(0)
    assert names(tree) == outermost
    keyboard.press("End")
    expect(rows(tree).last).to_be_focused()
    keyboard.press("Home")
    expect(rows(tree).first).to_be_focused()


def test_enter_and_a_click_select_a_box(tree):
    tree.page.keyboard.press("Enter")
    label = names(tree)[0]
    expect(tree.locator(".ex-why h4")).to_have_text(label.split(" ×")[0])
    expect(rows(tree).first).to_have_attribute("aria-selected", "true")
    expect(rows(tree).first).to_be_focused()
    tree.page.keyboard.press("ArrowRight")
    rows(tree).last.click()
    expect(rows(tree).last).to_have_attribute("aria-selected", "true")
    expect(rows(tree).first).to_have_attribute("aria-selected", "false")
    rows(tree).last.locator(".ex-twisty").click()
    expect(tree.locator(".ex-box.ex-open")).to_have_count(2)


@pytest.mark.parametrize("opened", [False, True])
def test_a_box_that_is_selected_is_marked_on_the_canvas_open_or_closed(tree, opened):
    keyboard = tree.page.keyboard
    if opened:
        keyboard.press("ArrowRight")
    stroke = "box => getComputedStyle(box.querySelector('.ex-shape')).stroke"
    kind = ".ex-open" if opened else ".ex-closed"
    before = tree.locator(kind).last.evaluate(stroke)
    keyboard.press("Enter")
    marked = tree.locator(f"{kind}.ex-selected")
    expect(marked).to_have_count(1)
    node = (
        "view => { const probe = view.appendChild(document.createElement('i')); probe.style.color = 'var(--ex-accent)';"
    )
    accent = tree.evaluate(f"{node} const {{ color }} = getComputedStyle(probe); probe.remove(); return color; }}")
    assert marked.evaluate(stroke) == accent != before


def test_the_canvas_moves_it(tree):
    before = len(names(tree))
    tree.locator(".ex-closed").first.dblclick()
    expect(tree.locator(".ex-box.ex-open")).to_have_count(1)
    assert len(names(tree)) > before
    expect(tree.locator('[role="treeitem"][aria-expanded="true"]')).to_have_count(1)
    press(tree, "0")
    assert len(names(tree)) == before


def test_a_selected_node_marks_the_row_around_it(tree):
    press(tree, "e")
    tree.locator(".ex-node").last.click()
    expect(tree.locator('[role="treeitem"][aria-selected="true"]')).to_have_count(1)


def test_rows_say_what_their_boxes_hold(tree):
    label = rows(tree).first.get_attribute("aria-label")
    assert label.startswith(f"{names(tree)[0]}, ")
    assert "operation" in label


def leaves(view):
    return view.locator('[role="treeitem"]:not([aria-expanded])')


def test_a_box_without_boxes_in_it_is_a_leaf_of_the_tree(tree):
    """The right arrow does nothing on a leaf, even if its box is open on the canvas; + and − open and close it."""
    keyboard = tree.page.keyboard
    press(tree, "2", "s", "s")
    leaf = leaves(tree).first
    expect(leaf.locator(".ex-twisty")).to_be_empty()
    expect(tree.locator("[aria-expanded] .ex-twisty").first).not_to_be_empty()
    leaf.click()
    before = tree.locator(".ex-box.ex-open").count()
    keyboard.press("ArrowRight")
    expect(leaf).to_be_focused()
    expect(tree.locator(".ex-box.ex-open")).to_have_count(before)
    keyboard.press("+")
    expect(tree.locator(".ex-box.ex-open")).to_have_count(before + 1)
    keyboard.press("ArrowRight")
    expect(leaf).to_be_focused()
    keyboard.press("-")
    expect(tree.locator(".ex-box.ex-open")).to_have_count(before)
    keyboard.press("ArrowLeft")
    expect(leaf).not_to_be_focused()


WATCH = """(view) => {
    const tree = view.querySelector(".ex-tree");
    const rows = () => [...tree.querySelectorAll("[data-box]")];
    const texts = () => new Map(rows().map((row) => [row.dataset.box, row.outerHTML]));
    const rowOf = (node) => (node instanceof Element ? node : node.parentElement).closest("[data-box]")?.dataset.box;
    const changed = new Set();
    let before = texts();
    const note = ({ target, addedNodes }) => {
        for (const row of [target, ...addedNodes].map(rowOf)) if (row) changed.add(row);
    };
    const watch = new MutationObserver((records) => records.forEach(note));
    watch.observe(tree, { subtree: true, childList: true, attributes: true, characterData: true });
    window.written = () => {
        watch.takeRecords().forEach(note);
        const written = [...changed].map((row) => texts().get(row) !== before.get(row));
        changed.clear();
        before = texts();
        return written;
    };
}"""


def test_a_step_writes_to_no_row_but_those_that_say_something_else(show):
    """Steps through a plan create no rows and write to no unchanged row."""
    view = show(sample.resnet(), position=0)
    press(view, "9", "s", "Escape")
    view.evaluate(WATCH)
    written = []
    for _ in range(40):
        view.page.keyboard.press(".")
        written.append(view.evaluate("() => window.written()"))
    assert all(map(all, written))
    assert any(written)
    assert sum(map(len, written)) < 40 * rows(view).count() / 4


SIGHT = """(view) => (window.sight = () => {
    const stage = view.querySelector(".ex-stage").getBoundingClientRect();
    const items = view.querySelectorAll(".ex-graph [data-key]:not(.ex-none)");
    const graph = [...items].map((item) => item.getBoundingClientRect());
    const [left, right] = [Math.min(...graph.map((rect) => rect.left)), Math.max(...graph.map((rect) => rect.right))];
    return [(left - stage.left + right - stage.right) / 2, stage.width];
})()"""


@pytest.mark.parametrize("key", ["s", "w"])
def test_the_canvas_stays_centred_when_what_is_beside_it_comes_and_goes(show, key):
    """The center of the canvas stays the same when the tree or the panel is shown or hidden."""
    view = show(sample.transformer())
    press(view, "0", "f")
    middle, wide = view.evaluate(SIGHT)
    for _ in range(2):
        press(view, key)
        view.page.wait_for_function(
            "([wide, middle]) => window.sight()[1] !== wide && Math.abs(window.sight()[0] - middle) < 3",
            arg=[wide, middle],
        )
        wide = view.evaluate(SIGHT)[1]


@pytest.mark.parametrize("wide", [600, 320])
def test_a_narrow_view_has_room_for_both(show, wide):
    """The tree is next to the canvas with equal height, and each has at least a third of the width."""
    view = show(sample.transformer())
    resize(view.page, wide)
    press(view, "s")
    expect(rows(view).first).to_be_visible()
    tree, stage, field = (view.locator(part).bounding_box() for part in (".ex-tree", ".ex-stage", ".ex-field"))
    assert tree["height"] == stage["height"] + 29 > 240  # the sentence is above the canvas
    assert tree["x"] + tree["width"] <= stage["x"]
    assert min(tree["width"], stage["width"]) >= field["width"] / 3


def test_typing_leads_to_the_next_row_that_begins_so(show):
    """While the tree has the focus, letters do not act as keys of the view."""
    view = show(sample.scopes(12, 3))
    press(view, "0", "s")
    keyboard, focused = view.page.keyboard, view.locator('[role="treeitem"]:focus .ex-tree-name')
    first = focused.inner_text()
    keyboard.press("g")
    expect(focused).not_to_have_text(first)
    keyboard.type("roup11")
    expect(focused).to_have_text("group11")
    keyboard.type("x")
    expect(focused).to_have_text("group11")
    view.page.wait_for_timeout(800)
    for letter in "ecswhdpirfnmz0":
        keyboard.press(letter)
    expect(focused).to_have_text("group11")
    expect(view.get_by_role("tree")).to_be_visible()
    expect(view.locator(".ex-box.ex-open")).to_have_count(0)
    keyboard.press("Escape")
    expect(view.locator("[data-key]:focus")).to_have_count(1)
    keyboard.press("s")
    expect(view.get_by_role("tree")).to_have_count(0)


@pytest.mark.parametrize("groups", [30, pytest.param(100, marks=pytest.mark.soak)])
def test_thousands_of_boxes_are_all_reachable_and_few_have_elements(page, groups):
    mount(page, payload(sample.scopes(groups, 100)))
    view = page.locator(".explorer-view")
    press(view, "s")
    page.evaluate("() => window.view.opening.to(1)")
    expect(view.get_by_role("tree")).to_be_visible()
    rows(view).first.focus()
    assert page.evaluate("() => window.view.parts.tree.rows.length") >= 100 * groups
    for key in ("End", "PageUp", "ArrowUp", "Home", "PageDown"):
        page.keyboard.press(key)
        assert rows(view).count() < 100
        focused = view.locator('[role="treeitem"]:focus')
        expect(focused).to_be_in_viewport(ratio=0.9)
    page.keyboard.press("End")
    page.keyboard.type(f"layer{groups // 2}.42")
    expect(focused).to_have_attribute("aria-posinset", re.compile(r"\d+"))
    expect(focused.locator(".ex-tree-name")).to_have_text(f"layer{groups // 2}.42")
    expect(focused).to_be_in_viewport()
    view.get_by_role("tree").evaluate("tree => (tree.scrollTop = 0)")
    expect(view.locator(".ex-tree-name").first).to_be_in_viewport()
    assert rows(view).count() < 100
    expect(focused).to_have_count(1)


@pytest.mark.stores
def test_a_reader_finds_it_again_on_the_next_page(open_page, tmp_path):
    page = open_page()
    for name in ("one", "other"):
        (tmp_path / f"{name}.html").write_text(html(sample.transformer()), encoding="utf-8")
    view = page.locator(".explorer-view")
    page.goto((tmp_path / "one.html").as_uri())
    press(view, "s")
    page.goto((tmp_path / "other.html").as_uri())
    reload_until(view, lambda: expect(view.get_by_role("tree")).to_be_visible(timeout=1000))
    press(view, "s")
    reload_until(view, lambda: expect(view.get_by_role("tree")).to_have_count(0, timeout=1000))
