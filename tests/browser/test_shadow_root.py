"""A widget inside a shadow root, as marimo and Panel show it, whose model does not say whether its kernel lives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from explorer.view.payload.script_bundle import script, stylesheet
from explorer.view.payload.view_payload import payload
from explorer.view.widget.front_end import NotebookWidget
from tests.browser.player import node, press
from tests.view import sample

pytestmark = pytest.mark.browser

RENDER = """async ({ loader, shared, traits }) => {
    const listeners = [];
    const model = (values) => ({
        get: (name) => values[name],
        set: (name, value) => (values[name] = value),
        save_changes() {},
        send() {},
        on: (event, act) => listeners.push([event, act]),
        off() {},
        widget_manager: { get_model: async () => model(shared) },
    });
    const url = URL.createObjectURL(new Blob([loader], { type: "text/javascript" }));
    const { default: widget } = await import(url);
    for (const host of document.querySelectorAll(".host")) {
        const el = document.createElement("div");
        host.attachShadow({ mode: "open" }).append(el);
        await widget.render({ model: model({ ...traits }), el });
    }
}"""


@pytest.fixture
def shadow(page: Page, tmp_path: Path) -> Callable[[int], Locator]:
    def show(count: int) -> Locator:
        hosts = "<p><a href='#explorer:stage=order&node=tanh'>the kernel</a></p><div class=host></div>" * count
        (tmp_path / "page.html").write_text(f"<!doctype html><title>shadow</title>{hosts}")
        page.goto((tmp_path / "page.html").as_uri())
        traits: dict[str, Any] = {"payload": json.dumps(payload(sample.mlp())), "front_end": "IPY_MODEL_1"}
        traits |= {"step": 0, "stage": "", "selected": -1, "open_boxes": None, "theme": "auto", "predicting": False}
        traits |= {"direction": "down", "revisions": {}, "seen": {}}
        shared = {"script": script(), "style": stylesheet(), "digest": "0123456789abcdef"}
        page.evaluate(RENDER, {"loader": str(NotebookWidget._esm), "shared": shared, "traits": traits})
        return page.locator(".explorer-view")

    return show


@pytest.mark.spec("V-16")
def test_a_view_in_a_shadow_root_has_its_style_and_the_keyboard(shadow):
    """Show a view in marimo, inside a shadow root, with its styles, keys and links."""
    views = shadow(2)
    expect(views).to_have_count(2)
    for view in (views.first, views.last):
        assert view.locator(".ex-stage").evaluate("stage => getComputedStyle(stage).overflow") != "visible"
        expect(view.locator(".ex-graph .ex-node").first).to_be_visible()
    assert views.page.evaluate(
        "[...document.querySelectorAll('.host')].map(host => host.shadowRoot.querySelectorAll('style').length)"
    ) == [1, 1]
    view = views.last
    node(view, "x").click()
    view.page.keyboard.press("ArrowDown")
    expect(view.locator(".ex-node:focus")).to_have_attribute("aria-label", "matmul, x @ W → 32×48 f32")
    view.page.keyboard.press(".")
    expect(view.locator(".ex-say")).to_contain_text("decision 1 of")
    expect(view.locator("[data-key]:focus")).to_have_count(1)
    press(view, "/")
    view.page.keyboard.type("softmax")
    expect(view.locator(".ex-results button")).to_have_count(4)
    view.page.keyboard.press("ArrowDown")
    expect(view.locator(".ex-results button").first).to_be_focused()


@pytest.mark.spec("V-13", "V-16")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_view_has_the_colour_scheme_that_its_page_declares(shadow, scheme):
    view = shadow(1)
    view.page.emulate_media(color_scheme="dark" if scheme == "light" else "light")
    expect(view).to_have_attribute("data-theme", "dark" if scheme == "light" else "light")
    view.page.evaluate(
        "scheme => [document.body.style.colorScheme, document.body.className] = [scheme, scheme]", scheme
    )
    expect(view).to_have_attribute("data-theme", scheme)


@pytest.mark.spec("V-16")
def test_a_model_that_does_not_know_its_kernel_has_one(shadow):
    expect(shadow(1)).not_to_contain_class("ex-no-kernel")


@pytest.mark.spec("V-16")
def test_a_link_in_prose_drives_the_nearest_view_in_a_shadow_root(shadow):
    views = shadow(2)
    views.page.get_by_role("link").first.click()
    expect(views.first.locator(".ex-why h4")).to_have_text("tanh")
    expect(views.last.locator(".ex-selected")).to_have_count(0)
