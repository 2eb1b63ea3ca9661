"""Pages of the browser's tests: watched, and kept from one test to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

from tests.browser.notebook import Lab

VIEWPORT = ViewportSize(width=1280, height=900)
_TESTS = 50
"""tests after which the page that they share is closed, with the memory of its process"""


@dataclass
class Watch:
    """What a page did that it must not do."""

    requests: list[str]
    errors: list[str]

    def attend(self, page: Page) -> None:
        """Note what a page asks for, and its errors."""
        for event, heard in self._listeners.items():
            page.on(event, heard)

    def leave(self, page: Page) -> None:
        """Note nothing more of a page."""
        for event, heard in self._listeners.items():
            page.remove_listener(event, heard)

    @cached_property
    def _listeners(self) -> dict[str, Callable[[Any], None]]:
        return {
            "request": lambda request: self._request(request.url),
            "websocket": lambda web_socket: self._request(web_socket.url),
            "pageerror": lambda error: self.errors.append(error.stack or error.message),
            "console": lambda message: self.errors.append(message.text) if message.type == "error" else None,
        }

    def _request(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != "127.0.0.1":
            self.requests.append(url)


def new_context(browser: Browser, **options: Any) -> BrowserContext:
    """Make a context, whose pages know nothing of those of others."""
    # Without motion, so that a click lands where its node is; a test of motion asks for it.
    context = browser.new_context(**{"viewport": VIEWPORT, "reduced_motion": "reduce", **options})
    context.set_default_timeout(15_000)
    context.set_default_navigation_timeout(60_000)
    return context


class KeptPage:
    """A page that tests use one after the other: a new one, with a process of its own, takes Chromium a second."""

    def __init__(self, new_context: Callable[[], BrowserContext]) -> None:
        self._new_context = new_context
        self._context: BrowserContext | None = None
        self._page: Page | None = None
        self._watch: Watch | None = None
        self._tests = 0

    def lend(self, watch: Watch, viewport: ViewportSize) -> Page | None:
        """Lend the page, as a new one and of this size, to a test; None while a test has it already."""
        if self._watch is not None:
            return None
        if self._page is None or self._page.is_closed() or self._tests == _TESTS or not self.is_whole(self._page):
            self.close()
            self._context = self._new_context()
            self._page, self._tests = self._context.new_page(), 0
            self.open(self._page)
        self._tests += 1
        self._page.set_viewport_size(viewport)
        self._watch = watch
        watch.attend(self._page)
        return self._page

    def take_back(self) -> None:
        """Forget all that a test left behind: what the page shows and stores, where the mouse is, who listens."""
        page, watch, self._watch = self._page, self._watch, None
        if page is not None and watch is not None and not page.is_closed():
            try:
                page.mouse.move(-10, -10)
                self.empty(page)
            finally:
                watch.leave(page)

    def close(self) -> None:
        """Close the page and its context."""
        if self._context is not None:
            self._context.close()

    def is_whole(self, page: Page) -> bool:
        """Whether the next test finds the page as `open` left it."""
        return True

    def open(self, page: Page) -> None:
        """Show in a new page the things that every test finds."""

    def empty(self, page: Page) -> None:
        """Forget what the page shows and stores."""
        if not page.url.startswith("about:"):
            page.evaluate("() => [localStorage, sessionStorage].forEach((each) => each.clear())")
        page.goto("about:blank")


class KeptLabPage(KeptPage):
    """A page with JupyterLab, which takes Chromium three seconds to start, and no document."""

    def __init__(self, new_context: Callable[[], BrowserContext], lab: Lab) -> None:
        super().__init__(new_context)
        self._lab = lab

    def is_whole(self, page: Page) -> bool:
        """Whether JupyterLab is still there, with no dialog over it."""
        return bool(page.evaluate("() => window.jupyterapp !== undefined && !document.querySelector('.jp-Dialog')"))

    def open(self, page: Page) -> None:
        """Start JupyterLab."""
        self._lab.open(page)

    def empty(self, page: Page) -> None:
        """Have the kernels shut down, which nobody waits for, and close all documents without saving them."""
        page.evaluate(
            """() => {
                for (const widget of window.jupyterapp ? [...window.jupyterapp.shell.widgets("main")] : []) {
                    const { context } = widget;
                    context?.sessionContext?.session?.shutdown().catch(() => undefined);
                    if (context) context.model.dirty = false;
                    widget.close();
                }
                localStorage.clear();
            }"""
        )
