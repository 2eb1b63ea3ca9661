"""The tree of boxes beside the canvas: WAI-ARIA's keys, in step with the canvas both ways, remembered."""

import pytest
from playwright.sync_api import expect

from tests.browser.player import press
from tests.view import sample

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-8")]


def rows(view):
    return view.get_by_role("treeitem")


def names(view):
    return view.evaluate("view => [...view.querySelectorAll('.ex-tree-name')].map((name) => name.textContent)")


@pytest.fixture
def tree(show):
    """A view of closed boxes, with its tree, whose first row has the focus."""
    view = show(sample.transformer())
    press(view, "0", "s")
    expect(rows(view).first).to_be_focused()
    return view


def test_it_is_hidden_until_it_is_asked_for(show):
    view = show(sample.transformer())
    expect(view.get_by_role("tree")).to_have_count(0)
    view.get_by_role("button", name="show or hide the tree of boxes").click()
    expect(view.get_by_role("tree")).to_be_visible()
    view.get_by_role("button", name="show or hide the tree of boxes").click()
    expect(view.get_by_role("tree")).to_have_count(0)


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
