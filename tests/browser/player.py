"""What tests do to a view on a page: press keys, find nodes, walk to a step."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable, Generator
from typing import Any
from unittest.mock import patch

from playwright.sync_api import Locator, Page, expect

from explorer.view.layout.placed_model import PlacedModel
from explorer.view.payload.script_bundle import script, stylesheet

MOUNT = """async ([url, payload]) => {
    const { mount } = await import(url);
    window.asked = [];
    document.body.replaceChildren();
    window.view = mount(document.body, payload, { onPlace: (boxes) => window.asked.push(boxes) });
}"""


def press(view: Locator, *keys: str) -> None:
    """Press keys while the canvas has the focus."""
    view.locator("[data-key][tabindex='0']").focus()
    for key in keys:
        view.page.keyboard.press(key)


def node(view: Locator, name: str) -> Locator:
    """The first node of a name on the canvas, that of a variable's value among them."""
    return view.locator(f'.ex-node:is([aria-label^="{name},"], [aria-label*=" = {name},"])').first


def box(view: Locator, name: str) -> Locator:
    """The first box of a name on the canvas, open or closed."""
    return view.locator(f'.ex-box[aria-label*=" {name},"], .ex-box[aria-label$=" {name}"]').first


def heading(view: Locator, text: str) -> Locator:
    """A heading of the panel."""
    return view.locator(".ex-why h5").filter(has_text=text)


def stage(view: Locator) -> Locator:
    """The name of the stage that the view stands in."""
    return view.locator(".ex-rail [aria-current]")


def decided(view: Locator, code: str) -> Locator:
    """The panel's line with the code of the decision that the view stands at."""
    return view.locator(f".ex-why .ex-where[data-code='{code}']")


def refusal(view: Locator, code: str) -> Locator:
    """The cards of refusals with a code, for the selected node."""
    return view.locator(f".ex-why .ex-card-declined[data-code='{code}']")


def drawn(page: Page) -> None:
    """Wait until the page has drawn two frames: after the second, its observers of sizes have been called."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")


def tool(view: Locator, name: str) -> Locator:
    """The button of a tool in the menu of further tools, which is opened."""
    view.get_by_role("button", name="more tools").click()
    return view.get_by_role("button", name=name)


@contextlib.contextmanager
def opened_wide() -> Generator[None]:
    """Make pages on which all boxes are open at first that a canvas of any size would open."""
    with patch.object(PlacedModel, "open_boxes", lambda self, frame=None: self.layouts.opened()):
        yield


def resize(page: Page, width: int, height: int = 900) -> None:
    """Give the page another size in pixels, and wait until its views are arranged for it."""
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_function("([width, height]) => innerWidth === width && innerHeight === height", arg=[width, height])
    drawn(page)


def mount(page: Page, held: dict[str, Any]) -> None:
    """Show a payload on an empty page, as ``window.view``; ``window.asked`` has what it asked a kernel for."""
    url = "data:text/javascript;base64," + base64.b64encode(script().encode()).decode()
    page.goto("about:blank")
    page.add_style_tag(content=stylesheet())
    page.evaluate(MOUNT, [url, json.loads(json.dumps(held))])


def reload_until(view: Locator, holds: Callable[[], object]) -> None:
    """Load the page again until a condition holds: the browser writes what a page stores after the page has gone on."""
    for _ in range(2):
        load_again(view)
        with contextlib.suppress(AssertionError):
            holds()
            return
    load_again(view)
    holds()


def load_again(view: Locator) -> None:
    """Load the page of a view again."""
    view.page.reload()
    expect(view.locator(".ex-stage")).to_be_visible()
