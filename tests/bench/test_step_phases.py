"""Time of a step by phase, from the key press to the painted frame, in a headless Chromium."""

from __future__ import annotations

import os
import statistics
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from explorer.view.export.html_page import html
from tests.bench.contest import table
from tests.browser.conftest import browser, kept_page, open_page, watch  # noqa: F401
from tests.support.large import planned

pytestmark = [pytest.mark.bench, pytest.mark.browser]

STEPS = 14
ROUNDS = 3
# Chromium's names of the phases
PHASES = {
    "UpdateLayoutTree": "style",
    "Layout": "layout",
    "PrePaint": "prepaint",
    "Paint": "paint",
    "Layerize": "layerize",
    "Commit": "commit",
}
CATEGORIES = ["devtools.timeline", "disabled-by-default-devtools.timeline", "cc", "toplevel"]


def traced(page: Page) -> list[dict[str, float]]:
    """Press the key of a step several times; return CPU ms by phase, and the laid-out objects, for each."""
    session = page.context.new_cdp_session(page)
    events: list[Any] = []
    ends: list[Any] = []
    session.on("Tracing.dataCollected", lambda part: events.extend(part["value"]))
    session.on("Tracing.tracingComplete", lambda end: ends.append(end))
    config = {"includedCategories": CATEGORIES}
    session.send("Tracing.start", {"transferMode": "ReportEvents", "traceConfig": config})
    for _ in range(STEPS):
        page.keyboard.press(".")
        page.wait_for_timeout(100)
    session.send("Tracing.end")
    while not ends:
        page.wait_for_timeout(20)
    session.detach()
    keys = [each for each in events if each["name"] == "EventDispatch" and each["args"]["data"]["type"] == "keydown"]
    thread = keys[0]["pid"], keys[0]["tid"]
    begins = sorted(each["ts"] for each in keys)
    rows = []
    for begin, end in zip(begins, [*begins[1:], begins[-1] + 100_000], strict=True):
        row: Counter[str] = Counter()
        for event in events:
            if not begin <= event["ts"] < end or event.get("ph") != "X":
                continue
            spent = event.get("tdur", event["dur"]) / 1000
            name = event["name"]
            if name == "RasterTask":
                row["raster"] += spent
            elif (event["pid"], event["tid"]) == thread:
                row["script"] += spent if name == "EventDispatch" and event in keys else 0
                # The paint of the page includes the paints of its parts.
                is_part = name == "Paint" and event["args"].get("data", {}).get("nodeName") != "#document"
                if name in PHASES and not is_part:
                    row[PHASES[name]] += spent
                if name == "Layout":
                    row["laid out"] += event["args"].get("beginData", {}).get("totalObjects", 0)
        row["all"] = sum(row[name] for name in ("script", *PHASES.values()))
        rows.append(dict(row))
    return rows


def test_the_phases_of_a_step(open_page: Callable[..., Any], tmp_path: Path) -> None:  # noqa: F811
    """Target: 16 ms of the page's thread with 1,000 visible nodes.

    Pages of other versions, listed in EXPLORER_PAGES and separated by colons, are measured in turn.
    """
    own = tmp_path / "dag.html"
    own.write_text(html(planned(1000).recording), encoding="utf-8")
    files = [*map(Path, filter(None, os.environ.get("EXPLORER_PAGES", "").split(":"))), own]
    rows = []
    for stage in ("fuse", "order"):
        pages = []
        for file in files:
            page = open_page()
            page.goto(file.as_uri())
            page.wait_for_selector(".ex-node, .ex-box")
            page.get_by_role("button", name="open all boxes").click()
            page.locator(".ex-chip", has_text=stage).last.click()
            page.evaluate("document.querySelector('[data-key][tabindex=\"0\"]').focus()")
            for _ in range(20):
                page.keyboard.press(".")
            pages.append((file, page, []))
        for _ in range(ROUNDS):
            for _, page, seen in pages:
                page.bring_to_front()
                page.wait_for_timeout(200)
                seen.extend(traced(page))
        for file, page, seen in pages:
            figures = [
                statistics.median(row.get(name, 0) for row in seen)
                for name in ("script", *PHASES.values(), "all", "raster", "laid out")
            ]
            rows.append([stage, file.name, *[f"{figure:,.1f}" for figure in figures]])
            page.close()
    columns = ["stage", "page", "script", *PHASES.values(), "all", "raster", "objects laid out"]
    title = f"a step at 1,000 nodes in sight, ms of processor time (load {os.getloadavg()[0]:.1f})"
    print(table(title, columns, rows, ["playwright"]))
    assert rows


ENTER = "name => [...document.querySelectorAll('.ex-chip')].find((chip) => chip.textContent.startsWith(name)).click()"
FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
STAGES = ("recorded", "simplify", "dedup", "batch", "fuse", "order", "buffers")


def test_entry_of_stages(open_page: Callable[..., Any], tmp_path: Path) -> None:  # noqa: F811
    """Target: 50 ms of the page's thread for each stage of 10,000 operations."""
    file = tmp_path / "large.html"
    file.write_text(html(planned(10_000).recording), encoding="utf-8")
    page = open_page()
    page.goto(file.as_uri())
    page.wait_for_selector(".ex-node, .ex-box")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    spent: dict[str, list[dict[str, float]]] = {stage: [] for stage in STAGES}
    for _ in range(3 * ROUNDS):
        for stage in STAGES:
            page.evaluate(FRAMES)
            metrics = []
            for script, argument in ((ENTER, stage), (FRAMES, None)):
                metrics.append(
                    {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
                )
                page.evaluate(script, argument)
            metrics.append({each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]})
            spent[stage].append({name: 1000 * (metrics[-1][name] - value) for name, value in metrics[0].items()})
    names = {
        "ScriptDuration": "script",
        "RecalcStyleDuration": "style",
        "LayoutDuration": "layout",
        "TaskDuration": "all",
    }
    rows = [
        [stage, *[f"{statistics.median(each[name] for each in entries[1:]):.1f}" for name in names]]
        for stage, entries in spent.items()
    ]
    print(
        table(
            "entry of a stage at 10,000 operations, ms of processor time",
            ["stage", *names.values()],
            rows,
            ["playwright"],
        )
    )
    assert rows
