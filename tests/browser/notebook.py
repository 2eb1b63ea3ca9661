"""Control of a notebook in JupyterLab: its cells, their outputs and the explorers in them."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

ROOT = Path(__file__).parents[2]
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab server and the folder that it serves."""

    url: str
    root: Path

    def open(self, page: Page, workspace: str = "") -> None:
        """Open JupyterLab in a given or new workspace, because it redirects the second page in one workspace."""
        page.goto(f"{self.url}/lab/workspaces/{workspace or f'page_{next(_numbers)}'}")
        page.wait_for_function("window.jupyterapp !== undefined", timeout=60_000)
        page.evaluate("() => window.jupyterapp.restored.then(() => true)")


@dataclass
class Notebook:
    """A notebook that is open in a page."""

    page: Page
    cells: list[str] = field(default_factory=list)

    @classmethod
    def run(cls, lab: Lab, page: Page, cells: list[str], theme: str) -> Notebook:
        name = f"test_{next(_numbers)}.ipynb"
        (lab.root / name).write_text(json.dumps(_document(cells)))
        notebook = cls(page, cells)
        notebook.theme(theme)
        notebook.command("application:set-mode", {"mode": "single-document"})
        open_document(page, {"path": name})
        page.wait_for_function("() => window.jupyterapp.shell.currentWidget.context.sessionContext.isReady")
        if page.evaluate("() => window.jupyterapp.shell.leftCollapsed === false"):
            notebook.command("application:toggle-left-area")
        notebook.command("notebook:run-all-cells")
        return notebook

    def theme(self, name: str) -> None:
        """Change JupyterLab's theme, and wait for its splash screen, of which there must not be two at once."""
        splash = self.page.locator("#jupyterlab-splash")
        expect(splash).to_have_count(0)
        if self.page.locator("body").get_attribute("data-jp-theme-name") != name:
            self.command("apputils:change-theme", {"theme": name})
            expect(self.page.locator("body")).to_have_attribute("data-jp-theme-name", name)
            expect(splash).to_have_count(0)

    def insert_text(self, source: str) -> None:
        """Insert a Markdown cell at the top, and wait until it is rendered."""
        self.page.evaluate(
            """(source) => {
                const { content } = window.jupyterapp.shell.currentWidget;
                content.model.sharedModel.insertCell(0, { cell_type: "markdown", source });
                content.activeCellIndex = 0;
                content.deselectAll();
                void window.jupyterapp.commands.execute("notebook:run-cell");
            }""",
            source,
        )
        self.cells.insert(0, "")
        expect(self.page.locator(".jp-MarkdownOutput").first).to_be_visible()

    def command(self, name: str, arguments: object = None) -> None:
        """Execute one of JupyterLab's commands."""
        self.page.evaluate(
            "async ([name, given]) => void (await window.jupyterapp.commands.execute(name, given ?? {}))",
            [name, arguments],
        )

    def view(self, index: int = 0) -> Locator:
        """Return the explorer with the given index in the notebook, once it is drawn."""
        view = self.page.locator(".jp-Notebook .explorer-view").nth(index)
        expect(view).to_be_visible()
        return view

    def close(self) -> None:
        """Close the notebook without saving it."""
        self.page.evaluate(
            """() => {
                const { currentWidget } = window.jupyterapp.shell;
                currentWidget.context.model.dirty = false;
                currentWidget.close();
            }"""
        )
        expect(self.page.locator(".jp-Notebook")).to_have_count(0)

    def again(self, index: int) -> None:
        """Run an existing cell again, and wait until it has run."""
        self._start(index)

    def restart(self) -> None:
        """Restart the kernel, and wait until it answers, because a server stopped during a restart would wait forever.

        JupyterLab requests a subshell for each widget model, and reports an error if a restart leaves a request without
        an answer. Answers arrive in the order of the requests.
        """
        self.page.evaluate(
            """async () => {
                const { sessionContext } = window.jupyterapp.shell.currentWidget.context;
                await sessionContext.session.kernel.requestListSubshell({}).done;
                await sessionContext.restartKernel();
            }"""
        )
        self.says("print('there')", "there\n", 60)

    def execute(self, code: str) -> str:
        """Run a new cell at the end, and return its printed output; fail if it raised."""
        return self.output(self._run(code))

    def says(self, code: str, text: str, seconds: float = 10.0) -> None:
        """Run a cell until it prints a text, because the kernel receives a reader's actions in separate messages."""
        end = time.monotonic() + seconds
        while (answer := self._answer(self._run(code))) != (text, None):
            assert time.monotonic() < end, f"{code} answers {answer!r}, not {text!r}"
            self.page.wait_for_timeout(100)

    def keep_busy(self, seconds: float) -> None:
        """Make the kernel sleep; messages of the page wait for it."""
        self.page.evaluate(
            """code => void window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel
                .requestExecute({ code, stop_on_error: false })""",
            f"import time; time.sleep({seconds})",
        )

    def output(self, index: int) -> str:
        """Return the printed output of a cell that ran; fail if it raised."""
        printed, error = self._answer(index)
        assert error is None, error
        return printed

    def _run(self, code: str) -> int:
        """Run a new cell at the end, and return its index."""
        page, index = self.page, len(self.cells)
        self.cells.append(code)
        page.evaluate(
            """([index, code]) => void window.jupyterapp.shell.currentWidget.content.model.sharedModel
                .insertCell(index, { cell_type: "code", source: code })""",
            [index, code],
        )
        self._start(index)
        return index

    def _start(self, index: int) -> None:
        """Run a cell, and wait for the kernel's answer.

        The promise of JupyterLab's command is not awaited: it is sometimes dropped, and never kept.
        """
        self.page.evaluate(
            """index => {
                const { content } = window.jupyterapp.shell.currentWidget;
                content.activeCellIndex = index;
                content.deselectAll();
                content.model.cells.get(index).executionCount = null;
                window.jupyterapp.commands.execute("notebook:run-cell");
            }""",
            index,
        )
        self.page.wait_for_function(
            "index => window.jupyterapp.shell.currentWidget.content.model.cells.get(index).executionCount !== null",
            arg=index,
            timeout=60_000,
        )

    def _answer(self, index: int) -> tuple[str, str | None]:
        """Return the printed output of a cell, and the error that it raised, if any."""
        outputs = self.page.evaluate(
            """index => window.jupyterapp.shell.currentWidget.content.model.cells.get(index).outputs.toJSON()""", index
        )
        errors = [part["evalue"] for part in outputs if part["output_type"] == "error"]
        return "".join("".join(part.get("text", "")) for part in outputs), next(iter(errors), None)


def open_document(page: Page, options: dict[str, Any]) -> None:
    """Open a file in JupyterLab, and wait until its tab has read it.

    The promise of JupyterLab's command is not awaited: it is sometimes dropped, and never kept.
    """
    page.evaluate("options => void window.jupyterapp.commands.execute('docmanager:open', options)", options)
    page.wait_for_function(
        "path => window.jupyterapp.shell.currentWidget?.context?.path === path"
        " && window.jupyterapp.shell.currentWidget.context.isReady",
        arg=options["path"],
    )


def reopened(lab: Lab, page: Page, name: str, document: dict[str, Any], *, kernel: bool = False) -> Page:
    """Open a notebook in JupyterLab without a kernel, or with a new kernel that has run nothing."""
    (lab.root / name).write_text(json.dumps(document), encoding="utf-8")
    kernels = {} if kernel else {"kernel": {"shouldStart": False, "autoStartDefault": False}}
    open_document(page, {"path": name, **kernels})
    # Closing a notebook before JupyterLab knows whether it has a kernel causes a console error.
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget.context.sessionContext.isReady")
    return page


def _document(cells: list[str]) -> dict[str, object]:
    rows = [
        {"cell_type": "code", "id": f"c{index}", "metadata": {}, "source": cell, "outputs": [], "execution_count": None}
        for index, cell in enumerate(cells)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": rows, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def cells(name: str) -> list[str]:
    """Return the source of each code cell of a notebook."""
    result = json.loads((ROOT / "notebooks" / name).read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in result if cell["cell_type"] == "code"]
