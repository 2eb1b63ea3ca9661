"""The first view of many graphs, measured in a browser: the room for the graph, how legible it is, and its layout time.

``EXPLORER_SHOTS=folder`` keeps a screenshot of each view. The view is the page that ``view.save("page.html")`` writes.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from explorer.record.gc_pause import gc_paused
from explorer.view.layout.graphviz_engine import dot
from explorer.view.layout.placed_model import draw
from explorer.view.payload.view_payload import payload
from tests.bench.contest import table
from tests.bench.graphs import graphs
from tests.browser.conftest import ARGUMENTS, _executable

pytestmark = [pytest.mark.bench, pytest.mark.browser]

SIZES = {"page": (1440, 900), "cell": (1000, 560), "small": (640, 480)}
MEASURE = (Path(__file__).parent / "first_view.js").read_text()
COLUMNS = ("canvas", "items", "inSight", "whole", "name", "crossings", "over", "length", "turning", "overflow")


def test_first_views(tmp_path: Path) -> None:
    """Print the figures of each graph, and their means, at three sizes of the page."""
    wanted = os.environ.get("EXPLORER_GRAPHS", "").split(",")
    built = {name: build for name, build in graphs().items() if not wanted[0] or name in wanted}
    pages = {name: save(build(), tmp_path / f"{name}.html") for name, build in built.items()}
    shots = os.environ.get("EXPLORER_SHOTS")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_executable, args=ARGUMENTS)
        for size, (width, height) in SIZES.items():
            page = browser.new_page(viewport={"width": width, "height": height}, reduced_motion="reduce")
            rows: dict[str, dict[str, float]] = {}
            for name, path in pages.items():
                page.goto(path.as_uri())
                page.wait_for_selector(".ex-node:visible, .ex-box:visible")
                rows[name] = page.evaluate(MEASURE)
                if shots:
                    page.screenshot(path=Path(shots) / f"{name}-{size}.png")
            page.close()
            print(f"\n{size} {width}×{height}\n{'':18}" + "".join(f"{column:>10}" for column in COLUMNS))
            for name, row in rows.items():
                print(f"{name:18}" + "".join(f"{row[column]:10.4g}" for column in COLUMNS))
            means = {column: statistics.mean(row[column] for row in rows.values()) for column in COLUMNS}
            print(f"{'mean':18}" + "".join(f"{means[column]:10.4g}" for column in COLUMNS))
        browser.close()


def test_layouts() -> None:
    """Print the processor time of the layout of each graph at all steps, without cached layouts, and of its data."""
    engine, rows = dot(), []
    for name, build in graphs().items():
        recording = build().recording
        spent = []
        with gc_paused():
            for _ in range(5):
                engine.forget()
                began = time.process_time()
                drawing = draw(recording)
                for layouts in (drawing.layouts, drawing.recorded):
                    for box in layouts.at_once():
                        layouts[box]
                placed = time.process_time()
                payload(recording, drawing=drawing)
                spent.append((placed - began, time.process_time() - placed))
        rows.append([name, *[f"{1000 * min(times):.1f}" for times in zip(*spent, strict=True)]])
    print(table("processor time, ms", ["graph", "layout", "data of the view"], rows, ["wasmtime"]))
    assert len(rows) == len(graphs())


def save(view: Any, path: Path) -> Path:
    """Save a view as a page and return its path."""
    view.save(str(path))
    return path
