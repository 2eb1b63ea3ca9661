"""Pages of the browser tests, which are watched and reused between tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, ViewportSize

from tests.browser.notebook import Lab

VIEWPORT = ViewportSize(width=1280, height=900)
_TESTS = 50
"""tests after which the page that they share is closed, with the memory of its process"""

_NO_STORAGE = "Storage.prototype.setItem = () => undefined;"


@dataclass
class Watch:
    """Forbidden actions of pages: requests and errors."""

    requests: list[str]
    errors: list[str]

    def attend(self, page: Page) -> None:
        """Record a page's requests and errors."""
        for event, heard in self._listeners.items():
            page.on(event, heard)

    def leave(self, page: Page) -> None:
        """Stop recording a page."""
        for event, heard in self._listeners.items():
            page.remove_listener(event, heard)

    @cached_property
    def _listeners(self) -> dict[str, Callable[[Any], None]]:
        return {
            "request": lambda request: self._request(request.url),
            "websocket": lambda web_socket: self._request(web_socket.url),
            "pageerror": lambda error: self.errors.append(error.stack or error.message),
            "console": self._console,
        }

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location['url']})")

    def _request(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != "127.0.0.1":
            self.requests.append(url)


def new_context(browser: Browser, **options: Any) -> BrowserContext:
    """Make a context whose pages are isolated from other contexts' pages."""
    # Reduced motion, so that clicks hit their nodes; tests of motion enable it.
    context = browser.new_context(**{"viewport": VIEWPORT, "reduced_motion": "reduce", **options})
    context.set_default_timeout(15_000)
    context.set_default_navigation_timeout(60_000)
    return context


class KeptPage:
    """Page reused by tests, because a new page with its own process takes Chromium a second."""

    def __init__(self, new_context: Callable[[], BrowserContext]) -> None:
        self._new_context = new_context
        self._context: BrowserContext | None = None
        self._page: Page | None = None
        self._watch: Watch | None = None
        self._tests = 0

    def lend(self, watch: Watch, viewport: ViewportSize) -> Page | None:
        """Return the page, empty and with the given size; None while another test uses it."""
        if self._watch is not None:
            return None
        if self._page is None or self._page.is_closed() or self._tests == _TESTS or not self.is_whole(self._page):
            self.close()
            self._context = self._new_context()
            self.prepare(self._context)
            self._page, self._tests = self._context.new_page(), 0
            self.open(self._page)
        self._tests += 1
        self._page.set_viewport_size(viewport)
        self._watch = watch
        watch.attend(self._page)
        return self._page

    def take_back(self) -> None:
        """Reset everything that a test left behind: contents, mouse position and listeners."""
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
        """Whether the page is in the state in which `open` left it."""
        return True

    def prepare(self, context: BrowserContext) -> None:
        """Prevent documents from storing what the next test would read.

        Clearing the storage between tests is not enough: on a busy machine, a write can arrive after the next
        document has read the storage.
        """
        context.add_init_script(_NO_STORAGE)

    def open(self, page: Page) -> None:
        """Prepare a new page for all tests."""

    def empty(self, page: Page) -> None:
        """Clear the page's contents."""
        page.goto("about:blank")


class KeptLabPage(KeptPage):
    """Page with JupyterLab, which takes three seconds to start, and without documents."""

    def __init__(self, new_context: Callable[[], BrowserContext], lab: Lab) -> None:
        super().__init__(new_context)
        self._lab = lab

    def is_whole(self, page: Page) -> bool:
        """Whether JupyterLab is still there, with no dialog over it."""
        return bool(page.evaluate("() => window.jupyterapp !== undefined && !document.querySelector('.jp-Dialog')"))

    def prepare(self, context: BrowserContext) -> None:
        """Leave the storage to JupyterLab, which `empty` clears."""

    def open(self, page: Page) -> None:
        """Start JupyterLab."""
        self._lab.open(page)

    def empty(self, page: Page) -> None:
        """Shut down the kernels without waiting for them, and close all documents without saving."""
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
