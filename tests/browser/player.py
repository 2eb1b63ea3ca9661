"""What tests do to a view on a page: press keys, find nodes, walk to a step."""

from __future__ import annotations

import base64
import json
from typing import Any

from playwright.sync_api import Locator, Page

from explorer.view.payload.bundle import script, stylesheet

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
    """The first node of a name on the canvas."""
    return view.locator(f'.ex-node[aria-label^="{name},"]').first


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


def mount(page: Page, held: dict[str, Any]) -> None:
    """Show a payload on an empty page, as ``window.view``; ``window.asked`` has what it asked a kernel for."""
    url = "data:text/javascript;base64," + base64.b64encode(script().encode()).decode()
    page.goto("about:blank")
    page.add_style_tag(content=stylesheet())
    page.evaluate(MOUNT, [url, json.loads(json.dumps(held))])
