"""What tests do to a view on a page: press keys, find nodes, walk to a step."""

from __future__ import annotations

from playwright.sync_api import Locator


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
