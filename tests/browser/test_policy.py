"""Pages under the policy of a server that blocks inline scripts and styles."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from explorer.view.export.html_page import html
from tests.view import sample

pytestmark = pytest.mark.browser


class _Strict(SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", "default-src 'self'")
        super().end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Serve a folder with a page under a strict policy; return its address."""
    (tmp_path / "page.html").write_text(html(sample.mlp()), encoding="utf-8")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Strict, directory=tmp_path)) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/page.html"
        running.shutdown()
        thread.join()


@pytest.mark.spec("V-14")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_whose_script_is_blocked_shows_its_picture(
    browser: Browser, server: str, tmp_path: Path, scheme: str
) -> None:
    """Served under `default-src 'self'` a page shows the static picture, readable without styles."""
    page = browser.new_page(color_scheme=scheme)  # the browser reports blocked parts on its console
    page.goto(server)
    expect(page.locator("#explorer > svg")).to_be_visible()
    name = page.locator("svg text.name").first
    expect(name).to_be_visible()
    assert name.evaluate("text => getComputedStyle(text).textAnchor") == "middle"
    shape = page.locator("svg rect[stroke]").nth(1)
    assert shape.evaluate("shape => getComputedStyle(shape).fill") != "rgb(0, 0, 0)"
    page.screenshot(path=tmp_path / f"{scheme}.png", full_page=True)
    assert (tmp_path / f"{scheme}.png").stat().st_size > 5000
    page.close()


def test_a_script_that_runs_takes_the_picture_away(page: Page, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(html(sample.mlp()), encoding="utf-8")
    page.goto((tmp_path / "page.html").as_uri())
    expect(page.locator("#explorer .explorer-view")).to_be_visible()
    assert page.locator("#explorer > svg").count() == 0
