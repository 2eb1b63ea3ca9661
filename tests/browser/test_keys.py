"""Keys: one that has nothing to show says so, the focus stays in the view, fields and menus have keys of their own."""

from __future__ import annotations

import dataclasses

import pytest
from playwright.sync_api import expect

from explorer.view.payload.view_payload import payload
from tests.browser.player import drawn, mount, press, tool
from tests.golden.programs import recorded
from tests.view import sample

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-27")]

SIZES = "() => localStorage.getItem('explorer.sizes')"
NOTHING = {
    ",": "This is the first step.",
    "[": "This is the first step.",
    "Home": "This is the first step.",
    "i": "Select a node to trace it",
    "r": "Select a node to trace it",
    "n": "No search has results",
    "N": "No search has results",
    "m": "press g to predict what a stage decides",
    "s": "This graph has no boxes, so there is no tree of boxes.",
    "e": "This graph has no boxes.",
    "c": "This graph has no boxes.",
    "0": "This graph has no boxes.",
    "9": "This graph has no boxes.",
}


@pytest.mark.stores
@pytest.mark.parametrize("key", sorted(NOTHING))
def test_a_key_that_has_nothing_to_show_says_so(show, key):
    view = show(sample.mlp())
    say = view.locator(".ex-say")
    press(view, "f")
    before = say.inner_text()
    press(view, key)
    expect(say).to_contain_text(NOTHING[key], use_inner_text=True)
    # The note ends with the next key.
    press(view, "f")
    expect(say).to_have_text(before, use_inner_text=True)
    press(view, key, ".")
    expect(say).to_contain_text("decision 1 of", use_inner_text=True)
    assert view.page.evaluate(SIZES) is None


@pytest.mark.parametrize(("key", "what"), [(".", "step"), ("]", "stage"), ("End", "step")])
def test_a_key_at_the_last_step_says_so_and_does_not_go_back(show, key, what):
    view = show(sample.mlp())
    press(view, "End", key)
    say = view.locator(".ex-say")
    expect(say).to_contain_text(f"This is the last {what}.", use_inner_text=True)
    press(view, "f")
    expect(say).to_contain_text("step 4 of 4", use_inner_text=True)


@pytest.mark.parametrize("key", [".", ",", "[", "]", "Home", "End", "p"])
def test_a_graph_without_steps_says_so(show, key):
    view = show(sample.transformer())
    press(view, key)
    expect(view.locator(".ex-say")).to_contain_text("This graph has no steps.", use_inner_text=True)


def test_a_graph_without_source_and_questions_says_so(page):
    recording = sample.Builder("bare", "")
    recording.leaf("x", recording.type(2))
    recording.stage("recorded", "record", nodes=1)
    mount(page, payload(recording.roots(0)))
    view = page.locator(".explorer-view")
    for key, text in {
        "l": "The source of this graph is not known.",
        "g": "This plan has no decisions to predict.",
        "m": "This plan has no decisions to predict.",
        "d": "This page has the graph in one direction only.",
    }.items():
        press(view, key)
        expect(view.locator(".ex-say")).to_contain_text(text, use_inner_text=True)


def test_the_selected_node_and_a_question_without_a_hint_are_named(show):
    view = show(sample.mlp(), position=3)
    press(view, "Enter", "Enter")
    say = view.locator(".ex-say")
    expect(say).to_contain_text("is selected already.", use_inner_text=True)
    press(view, "y")
    expect(say).to_contain_text("go to another one by the arrows, and press y", use_inner_text=True)
    view.get_by_role("button", name="fit into view").focus()
    view.page.keyboard.press("y")
    expect(say).to_contain_text("Go to a node on the canvas", use_inner_text=True)
    press(view, "Escape")
    view.locator(".ex-rail").get_by_role("button", name="fuse").click()
    press(view, "g", "m")
    expect(say).to_contain_text("There is no hint on this question.", use_inner_text=True)


def test_the_focus_stays_in_a_sentence_that_gets_shorter(show):
    """A long sentence can have the focus, because it scrolls; the next one is short."""
    view = show(dataclasses.replace(sample.mlp(), title="a long title " * 150))
    view.locator(".ex-say[tabindex]").focus()
    view.page.keyboard.press(".")
    expect(view.locator(".ex-say")).to_contain_text("decision 1 of")
    drawn(view.page)
    assert view.evaluate("view => view.contains(document.activeElement)")


@pytest.mark.parametrize("change", ["element.remove()", "element.hidden = true", "element.disabled = true"])
def test_the_canvas_gets_the_focus_of_a_part_that_goes(show, change):
    view = show(sample.mlp())
    button = view.get_by_role("button", name="fit into view")
    button.focus()
    button.evaluate(f"element => {{ {change}; }}")
    expect(view.locator("[data-key]:focus")).to_have_count(1)


def test_a_blur_that_the_page_wants_is_kept(show):
    view = show(sample.mlp())
    press(view)
    view.page.evaluate("() => document.activeElement.blur()")
    view.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => done(true)))")
    assert view.page.evaluate("() => document.activeElement === document.body")


def test_a_text_field_takes_the_keys_of_the_steps_and_escape_leaves_it(show):
    view = show(sample.mlp(), position=1)
    field = view.get_by_role("searchbox", name="filter decisions")
    before = view.locator(".ex-say").inner_text()
    field.focus()
    view.page.keyboard.type("1.5,[/?]")
    expect(field).to_have_value("1.5,[/?]")
    expect(view.locator(".ex-say")).to_have_text(before, use_inner_text=True)
    expect(view.get_by_role("dialog")).to_have_count(0)
    view.page.keyboard.press("Escape")
    expect(view.locator("[data-key]:focus")).to_have_count(1)


def test_a_search_that_is_opened_again_finds_the_same(show):
    view = show(sample.mlp())
    press(view, "/")
    view.page.keyboard.type("softmax")
    rows = view.locator(".ex-results button")
    expect(rows).to_have_count(4)
    for key in ("Escape", "/", "ArrowDown", "Enter"):
        view.page.keyboard.press(key)
    expect(rows).to_have_count(4)
    expect(rows.first).to_have_attribute("aria-current", "true")


def test_the_menu_has_the_keys_of_menus(show):
    view = show(recorded("perceptron"))
    tool(view, "outlines and keys")
    items = view.locator(".ex-tool-menu :is(button, select):visible")
    expect(items.first).to_be_focused()
    for key, number in {"End": -1, "ArrowUp": -2, "Home": 0, "ArrowDown": 1}.items():
        view.page.keyboard.press(key)
        expect(items.nth(number)).to_be_focused()
    view.page.keyboard.type("sh")
    expect(view.get_by_role("button", name="show or hide the tree of boxes")).to_be_focused()
    view.page.keyboard.press("Escape")
    expect(view.get_by_role("button", name="more tools")).to_be_focused()
    tool(view, "save: picture").click()
    expect(view.get_by_role("menuitem").first).to_be_focused()
    view.page.keyboard.type("h")
    expect(view.get_by_role("menuitem", name="HTML")).to_be_focused()
    view.page.keyboard.press("Escape")
    expect(view.get_by_role("button", name="save: picture")).to_be_focused()
    view.page.keyboard.press("Escape")
    expect(view.get_by_role("button", name="more tools")).to_be_focused()
