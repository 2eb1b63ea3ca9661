"""Fixtures for a real JupyterLab and Chromium. Requests to other machines and console errors fail a test."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from explorer import __version__
from explorer.lab import build_hook
from explorer.record import Recording
from explorer.view.export.html_page import html
from explorer.view.payload.script_bundle import script
from tests.browser.forked_kernels import kernel_server
from tests.browser.notebook import Lab, Notebook
from tests.browser.pages import VIEWPORT, KeptLabPage, KeptPage, Watch, new_context
from tests.browser.player import opened_wide

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SECONDS = 60
expect.set_options(timeout=15_000)  # also on busy machines

_executable = next((path for path in map(shutil.which, CHROMIUM) if path), None)
_missed = 0


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests without a browser and report this in the summary; fail if a browser is required."""
    global _missed
    if _executable is None and item.get_closest_marker("browser"):
        message = f"no browser: none of {', '.join(CHROMIUM)} is in PATH"
        if os.environ.get("EXPLORER_REQUIRE_BROWSER") == "1":
            pytest.fail(message, pytrace=False)
        _missed += 1
        pytest.skip(message)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _missed:
        terminalreporter.write_line(
            f"NOT TESTED IN A BROWSER: {_missed} tests skipped, no Chromium in PATH; EXPLORER_REQUIRE_BROWSER=1 fails",
            red=True,
            bold=True,
        )


@pytest.fixture(scope="session")
def browser() -> Generator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=_executable, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture
def watch() -> Generator[Watch]:
    """Watch pages, and assert at the end that they sent no request to another machine and met no error."""
    watching = Watch([], [])
    yield watching
    assert watching.requests == []
    assert watching.errors == []


@pytest.fixture(scope="session")
def kept_page(browser: Browser) -> Generator[KeptPage]:
    kept = KeptPage(lambda: new_context(browser))
    yield kept
    kept.close()


@pytest.fixture
def open_page(
    browser: Browser, watch: Watch, kept_page: KeptPage, request: pytest.FixtureRequest
) -> Generator[Callable[..., Page]]:
    """Open isolated pages: first the reused page, if it has the requested options and the test needs no storage."""
    contexts = []
    is_stored = request.node.get_closest_marker("stores") is not None

    def open_one(**options: Any) -> Page:
        if not (is_stored or options.keys() - {"viewport"}):
            kept = kept_page.lend(watch, options.get("viewport", VIEWPORT))
            if kept is not None:
                return kept
        context = new_context(browser, **options)
        contexts.append(context)
        page = context.new_page()
        watch.attend(page)
        return page

    yield open_one
    kept_page.take_back()
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def lab_cache(browser: Browser) -> Generator[BrowserContext]:
    """Return a cache shared by JupyterLab pages, so that JupyterLab's 13 MB are loaded and compiled once."""
    context = new_context(browser)
    yield context
    context.close()


@pytest.fixture
def open_lab_page(lab_cache: BrowserContext, watch: Watch) -> Generator[Callable[[], Page]]:
    """Open pages for JupyterLab, and clear their storage at the end."""
    pages = []

    def open_one() -> Page:
        page = lab_cache.new_page()
        watch.attend(page)
        pages.append(page)
        return page

    yield open_one
    for page in pages:
        if not page.is_closed():
            page.evaluate("() => localStorage.clear()")
            page.close()


@pytest.fixture(scope="session")
def kept_lab_page(lab: Lab, browser: Browser) -> Generator[KeptLabPage]:
    kept = KeptLabPage(lambda: new_context(browser), lab)
    yield kept
    kept.close()


@pytest.fixture
def lab_page(kept_lab_page: KeptLabPage, watch: Watch) -> Generator[Page]:
    """Return the shared JupyterLab page without documents."""
    page = kept_lab_page.lend(watch, VIEWPORT)
    assert page is not None
    yield page
    page.unroute_all()
    kept_lab_page.take_back()


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    return open_page()


@pytest.fixture
def show(page: Page, tmp_path: Path) -> Callable[..., Locator]:
    """Write a recording's page to disk and open it; ``whole`` opens all boxes that any canvas would open at first."""

    def open_html(recording: Recording, position: int = 0, whole: bool = False, **options: Any) -> Locator:
        target = tmp_path / "page.html"
        with opened_wide() if whole else nullcontext():
            target.write_text(html(recording, position=position, **options), encoding="utf-8")
        page.goto(target.as_uri())
        view = page.locator(".explorer-view")
        expect(view).to_be_visible()
        return view

    return open_html


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Generator[Lab]:
    """Start a JupyterLab server without the user's settings, news and token."""
    home = tmp_path_factory.mktemp("jupyter")
    root = home / "notebooks"
    root.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    _settings(home)
    folders = {
        name: str(home / name)
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    }
    environment = {**os.environ, **folders, "JUPYTER_PLATFORM_DIRS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    # The extensions from the sources, not the installed ones.
    environment["JUPYTER_PATH"] = str(home / "share")
    environment["JUPYTER_CONFIG_PATH"] = str(home / "etc")
    package = Path(__file__).parents[2] / "explorer"
    build_hook.write(package, home / "share" / "labextensions" / build_hook.NAME, __version__)
    enabled = home / "etc" / Path(build_hook.SERVER).relative_to("etc/jupyter")
    enabled.parent.mkdir(parents=True)
    enabled.write_text(json.dumps(build_hook.ENABLED))
    log = (home / "log.txt").open("w")
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"]
    command += [
        "--IdentityProvider.token=",
        "--ip=127.0.0.1",
        f"--port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={root}",
    ]
    command += [f"--LabApp.user_settings_dir={home / 'settings'}", f"--LabApp.workspaces_dir={home / 'workspaces'}"]
    server = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        with kernel_server(home / "share" / "kernels" / "python3", home / "kernels.txt", environment):
            _wait(f"http://127.0.0.1:{port}/api/status", server, home / "log.txt")
            yield Lab(f"http://127.0.0.1:{port}", root)
            server.terminate()
            server.wait(20)
    finally:
        server.kill()
        server.wait()
        log.close()


def _settings(home: Path) -> None:
    quiet = home / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}))


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-3000:]}", pytrace=False)
            time.sleep(0.2)


@pytest.fixture
def notebook(
    lab: Lab,
    open_page: Callable[..., Page],
    open_lab_page: Callable[[], Page],
    kept_lab_page: KeptLabPage,
    watch: Watch,
) -> Generator[Callable[..., Notebook]]:
    """Write a notebook with the given cells, open it in JupyterLab and run it."""

    def run(*cells: str, theme: str = "JupyterLab Light", **options: object) -> Notebook:
        page = None if options else kept_lab_page.lend(watch, VIEWPORT)
        if page is None:
            page = open_page(**options) if options else open_lab_page()
            lab.open(page)
        return Notebook.run(lab, page, list(cells), theme)

    yield run
    kept_lab_page.take_back()


@pytest.fixture
def module(page: Page, tmp_path: Path) -> Callable[[str, Any], Any]:
    """Evaluate a JavaScript function whose arguments are the front end's module and a value."""
    (tmp_path / "empty.html").write_text("<!doctype html><title>empty</title>")
    page.goto((tmp_path / "empty.html").as_uri())
    page.evaluate(
        """async code => {
            const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
            window.explorer = await import(url);
            URL.revokeObjectURL(url);
        }""",
        script(),
    )
    return lambda function, argument: page.evaluate(f"argument => ({function})(window.explorer, argument)", argument)
