"""Actions of tests on a view: pressing keys, finding nodes, going to a step."""

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
    """Return the first node on the canvas with a name, which may be a variable's."""
    return view.locator(f'.ex-node:is([aria-label^="{name},"], [aria-label*=" = {name},"])').first


def on_edge(view: Locator, producer: str, reader: str) -> tuple[float, float]:
    """Return a point on the page at the middle of the edge between two nodes."""
    ends = [node(view, name).bounding_box() for name in (producer, reader)]
    x, y = view.evaluate(EDGE_MIDDLE, ends)
    return x, y


EDGE_MIDDLE = """(view, ends) => {
    const touches = (point, { x, y, width, height }) =>
        x - 15 <= point.x && point.x <= x + width + 15 && y - 15 <= point.y && point.y <= y + height + 15;
    for (const path of view.querySelectorAll(".ex-graph .ex-edge")) {
        const [long, onPage] = [path.getTotalLength(), path.getScreenCTM()];
        const [from, middle, to] = [0, long / 2, long].map((at) => path.getPointAtLength(at).matrixTransform(onPage));
        if (touches(from, ends[0]) && touches(to, ends[1])) return [middle.x, middle.y];
    }
    throw new Error("no edge is drawn between these nodes");
}"""


def box(view: Locator, name: str) -> Locator:
    """Return the first box on the canvas with a name, open or closed."""
    return view.locator(f'.ex-box[aria-label*=" {name},"], .ex-box[aria-label$=" {name}"]').first


def heading(view: Locator, text: str) -> Locator:
    """A heading of the panel."""
    return view.locator(".ex-why h5").filter(has_text=text)


def stage(view: Locator) -> Locator:
    """Return the name of the current stage."""
    return view.locator(".ex-rail [aria-current]")


def decided(view: Locator, code: str) -> Locator:
    """Return the panel's line with the code of the current decision."""
    return view.locator(f".ex-why .ex-where[data-code='{code}']")


def refusal(view: Locator, code: str) -> Locator:
    """Return the selected node's cards of declined decisions with a code."""
    return view.locator(f".ex-why .ex-card-declined[data-code='{code}']")


def drawn(page: Page) -> None:
    """Wait until the page has drawn two frames; after the second, its resize observers have been called."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")


def tool(view: Locator, name: str) -> Locator:
    """Open the menu of further tools, and return the button of a tool."""
    view.get_by_role("button", name="more tools").click()
    return view.get_by_role("button", name=name)


@contextlib.contextmanager
def opened_wide() -> Generator[None]:
    """Make pages that initially open all boxes that a canvas of any size would open."""
    with patch.object(PlacedModel, "open_boxes", lambda self, frame=None, position=0: self.layouts.opened()):
        yield


def resize(page: Page, width: int, height: int = 900) -> None:
    """Resize the page, in pixels, and wait until its views are arranged."""
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_function("([width, height]) => innerWidth === width && innerHeight === height", arg=[width, height])
    drawn(page)


def mount(page: Page, held: dict[str, Any]) -> None:
    """Show a payload on an empty page as ``window.view``; ``window.asked`` lists its requests to a kernel."""
    url = "data:text/javascript;base64," + base64.b64encode(script().encode()).decode()
    page.goto("about:blank")
    page.add_style_tag(content=stylesheet())
    page.evaluate(MOUNT, [url, json.loads(json.dumps(held))])


def reload_until(view: Locator, holds: Callable[[], object]) -> None:
    """Reload the page until a condition is true, because the browser writes storage with a delay."""
    for _ in range(2):
        load_again(view)
        with contextlib.suppress(AssertionError):
            holds()
            return
    load_again(view)
    holds()


def load_again(view: Locator) -> None:
    """Reload the page of a view."""
    view.page.reload()
    expect(view.locator(".ex-stage")).to_be_visible()
