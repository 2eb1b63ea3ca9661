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
    return view.locator(".ex-box").filter(has=view.page.locator(f'text:text-is("{name}")')).first


def heading(view: Locator, text: str) -> Locator:
    """A heading of the panel."""
    return view.locator(".ex-why h5").filter(has_text=text)
