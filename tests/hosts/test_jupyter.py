"""Jupyter's own applications: JupyterLab, Notebook, nbclassic and Voilà."""

from __future__ import annotations

import pytest

from tests.hosts.conftest import Host

pytestmark = pytest.mark.hosts

OPEN = ("--no-browser", "--port=PORT", "--ServerApp.port_retries=0", "--allow-root", "--IdentityProvider.token=")


LAB = (
    ".jp-CodeCell .cm-content",
    "document.querySelector('.jp-Notebook-ExecutionIndicator[data-status=idle]') !== null",
)
CLASSIC = (
    ".code_cell .CodeMirror-lines",
    # It draws all outputs again when it has read the kernel's models, without the views that cells showed before.
    "window.Jupyter?.notebook?.kernel?.widget_manager?._loadFromKernel().then(() => true)",
)
"""a code cell, and a condition that the kernel is ready to run it"""


@pytest.mark.spec("H-1", "V-16")
@pytest.mark.parametrize(
    ("program", "path", "cell"),
    [
        ("jupyterlab", "/lab/tree/book.ipynb", LAB),
        ("notebook", "/notebooks/book.ipynb", LAB),
        ("nbclassic", "/nbclassic/notebooks/book.ipynb", CLASSIC),
    ],
)
def test_a_view_in_a_notebook_steps(host: Host, program: str, path: str, cell: tuple[str, str]) -> None:
    """Show a live view below the cell that made it."""
    host.write_notebook("book.ipynb", is_executed=False)
    page = host.open(host.serve(program, *OPEN) + path)
    editor, ready = cell
    page.locator(editor).click(timeout=60_000)
    page.wait_for_function(ready, timeout=60_000)
    page.keyboard.press("Shift+Enter")
    host.check(page.locator(".explorer-view"), program)


@pytest.mark.spec("H-1", "V-16")
def test_a_view_in_voila_steps(host: Host) -> None:
    """Show a live view in a notebook that is served as an app."""
    host.write_notebook("book.ipynb", is_executed=False)
    page = host.open(host.serve("voila", "book.ipynb", "--no-browser", "--port=PORT", "--Voila.ip=127.0.0.1"))
    host.check(page.locator(".explorer-view"), "voila")
