"""Memory that a page keeps for views: after re-runs of a cell, steps, cleared outputs and a closed notebook."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bench.contest import table
from tests.browser.conftest import (  # noqa: F401
    browser,
    kept_lab_page,
    kept_page,
    lab,
    lab_cache,
    notebook,
    open_lab_page,
    open_page,
    watch,
)
from tests.browser.notebook import Notebook

pytestmark = [pytest.mark.bench, pytest.mark.browser]

ENCODER = Path(__file__).parents[2] / "assets" / "models" / "encoder.pnnx.param"
RUNS = 25

STEP = """async (count) => {
    const next = document.querySelector(".explorer-view [aria-label^='a step forward']");
    const first = document.querySelector(".explorer-view [aria-label^='a stage back']");
    for (let step = 0; step < count; step++) {
        if (step % 100 === 99) for (let stage = 0; stage < 15; stage++) first.click();
        next.click();
        await new Promise((done) => setTimeout(done, 8));
    }
}"""


def test_memory_kept_by_a_page(notebook: Callable[..., Notebook]) -> None:  # noqa: F811
    """Target: 0.15 MB per re-run, and nothing for steps."""
    count = "import ipywidgets\nprint(len(ipywidgets.widgets.widget._instances))"
    book = notebook("import explorer as ex", f"ex.open({str(ENCODER)!r}).explore()", count)
    book.view()
    page = book.page
    tools = page.context.new_cdp_session(page)

    def figures() -> list[float]:
        for _ in range(3):
            tools.send("HeapProfiler.collectGarbage")
        page.wait_for_timeout(500)
        counted: dict[str, Any] = tools.send("Memory.getDOMCounters")
        heap = tools.send("Runtime.getHeapUsage")["usedSize"] / 1e6
        book.again(2)
        return [heap, counted["nodes"], counted["jsEventListeners"], float(book.output(2))]

    rows = []

    def measure(when: str) -> float:
        heap, nodes, listeners, models = figures()
        rows.append([when, f"{heap:,.1f}", *(f"{count:,.0f}" for count in (nodes, listeners, models))])
        return heap

    heaps = [measure("a view")]
    for round_ in range(1, 4):
        for _ in range(RUNS):
            book.again(1)
            book.view()
        heaps.append(measure(f"{round_ * RUNS} re-runs"))
    rows.append(["MB a re-run", f"{(heaps[-1] - heaps[0]) / (3 * RUNS):.2f}", "", "", ""])
    page.evaluate(STEP, 500)
    measure("500 steps")
    book.command("notebook:clear-all-cell-outputs")
    measure("outputs cleared")
    print(table("what a page keeps", ["after", "heap, MB", "DOM nodes", "listeners", "models"], rows, ["jupyterlab"]))
    assert len(rows) == 7
