"""The fixture ``host``: a folder with the example of docs/hosts.md, servers that run in it, and their pages."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from tests.browser.conftest import ARGUMENTS, _executable
from tests.browser.pages import new_context
from tests.browser.player import node, press

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "build" / "hosts"
SECONDS = 90
ELSEWHERE = re.compile(r"https?://(?!127\.0\.0\.1|localhost)")
ANYWIDGET = re.compile(r"https?://.*/anywidget@[^/]*/dist/index")
INSTALLED = Path(sys.prefix) / "share" / "jupyter" / "nbextensions" / "anywidget" / "index.js"
CREATED = re.compile(r"^( *)view = .*\bex\.explore\(y\).*$", re.MULTILINE)
CELL = "import explorer as ex\nfrom model import y\n\nview = ex.explore(y)\nview"
OBSERVED = r'\g<0>\n\1view.observe(lambda change: open("{step}", "w").write(str(change.new)), "step")'


@dataclass
class Host:
    """A folder with a program that shows a view, the servers that run it, and the browser."""

    folder: Path
    browser: Browser
    servers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def write(self, name: str, source: str) -> Path:
        """Write a program; its view writes its step into the file ``step`` whenever the step changes."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.observed(source), encoding="utf-8")
        return path

    def write_notebook(self, name: str, *, is_executed: bool, text: str = "# A view", start: str = "") -> Path:
        """Write a notebook with a text and a cell that shows a view, after a first cell ``start``.

        If it ``is_executed``, a program has run its cells.
        """
        cells = [new_code_cell(start)] if start else []
        cells += [new_markdown_cell(text), new_code_cell(self.observed(CELL))]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel})
        nbformat.write(notebook, self.folder / name)
        if is_executed:
            self.run("nbconvert", "--to=notebook", "--execute", "--inplace", name)
        return self.folder / name

    def observed(self, source: str) -> str:
        return CREATED.sub(OBSERVED.format(step=self.folder / "step"), source)

    def run(self, *command: str) -> str:
        """Run a program of this environment in the folder to its end, and return its output."""
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def serve(self, *command: str, **variables: str) -> str:
        """Start a server in the folder, which replaces ``PORT`` in the command, and return its address."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        address, log = f"http://127.0.0.1:{port}", self.folder / "log.txt"
        with log.open("wb") as output:
            server = subprocess.Popen(
                [sys.executable, "-m", *(part.replace("PORT", port) for part in command)],
                cwd=self.folder,
                env={**self.environment(), **variables},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.servers.append(server)
        end = time.monotonic() + SECONDS
        while not _answers(address):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.2)
        return address

    def open(self, address: str, *, theme: str = "light") -> Page:
        """Open an address in a new page, which prefers a light or dark theme.

        Other machines cannot be reached. Hosts that load the module of anywidget from there get the installed one.
        """
        context = new_context(self.browser, color_scheme=theme)
        context.route(ELSEWHERE, lambda route: route.abort())
        context.route(ANYWIDGET, lambda route: route.fulfill(path=INSTALLED))
        page = context.new_page()
        page.goto(address)
        return page

    def check(self, view: Locator, name: str, *, is_live: bool = True) -> None:
        """Assert that a view is drawn with its styles and steps, and that its kernel, if it is live, receives the step.

        The page is saved as a picture ``name`` in build/hosts.
        """
        (step := self.folder / "step").unlink(missing_ok=True)
        expect(view.locator(".ex-graph .ex-node").first).to_be_visible(timeout=SECONDS * 1000)
        assert view.locator(".ex-stage").evaluate("stage => getComputedStyle(stage).overflow") != "visible"
        press(view, ".")
        expect(view.locator(".ex-say")).to_contain_text("decision 1 of")
        node(view, "tanh").click()
        expect(view.locator(".ex-why h4")).to_have_text("tanh")
        self.picture(view.page, name)
        if is_live:
            expect(view).not_to_contain_class("ex-no-kernel")
            end = time.monotonic() + SECONDS
            while not (step.exists() and step.read_text()):
                assert time.monotonic() < end, "the kernel did not receive the step"
                time.sleep(0.1)
            assert int(step.read_text()) > 0

    def picture(self, page: Page, name: str) -> None:
        """Save what a page shows in build/hosts, to be looked at."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png")

    def close(self) -> None:
        """Stop the servers with their kernels, and close the pages."""
        for context in self.browser.contexts:
            context.close()
        for server in self.servers:
            for how in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(server.pid, how)
                    server.wait(10)

    def environment(self) -> dict[str, str]:
        # Programs must not read the user's settings, and use the sources, also in kernels that they start.
        home = {name: str(self.folder / "home") for name in ("HOME", "XDG_CONFIG_HOME", "IPYTHONDIR")}
        paths = os.pathsep.join((str(self.folder), str(ROOT)))
        binaries = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        return {**os.environ, **home, "PYTHONPATH": paths, "PATH": binaries}


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except OSError:
        return False


@pytest.fixture(scope="session")
def browser() -> Generator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=_executable, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture
def host(browser: Browser, tmp_path: Path) -> Generator[Host]:
    """Return a folder with the example ``model.py``, whose servers are stopped at the end."""
    result = Host(tmp_path, browser)
    result.write("model.py", example("The example"))
    yield result
    result.close()


def example(heading: str) -> str:
    """Return the program below a heading of docs/hosts.md."""
    text = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
    section = text.split(f"## {heading}\n", 1)[1].split("\n## ")[0]
    found = re.search(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert found is not None, f"docs/hosts.md has no program below {heading}"
    return found[1]
