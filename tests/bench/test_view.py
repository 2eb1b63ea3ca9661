"""From a file or a program to a readable picture, in a real JupyterLab and a headless Chromium."""

from __future__ import annotations

import inspect
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import explorer as ex
from explorer.view.export.html_page import html
from explorer.view.payload.view_payload import payload
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
from tests.browser.player import mount
from tests.support.large import flat, planned, read_at_random

pytestmark = [pytest.mark.bench, pytest.mark.browser]

MODELS = Path(__file__).parents[2] / "assets" / "models"
RESNET = MODELS / "resnet18.pnnx.param"
ROUNDS = 5

IMPORTS = "import explorer as ex"


PROGRAM = f"import random\nimport numpy as np\n{inspect.getsource(flat)}\n{inspect.getsource(planned)}"

DRAWN = """async ([code, index]) => {
    const { content } = window.jupyterapp.shell.currentWidget;
    const before = document.querySelectorAll(".jp-Notebook .explorer-view").length;
    content.model.sharedModel.insertCell(index, { cell_type: "code", source: code });
    content.activeCellIndex = index;
    content.deselectAll();
    const drawn = () => {
        const views = document.querySelectorAll(".jp-Notebook .explorer-view");
        return views.length > before && views[views.length - 1].querySelector(".ex-node, .ex-box");
    };
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const begin = performance.now();
    const ran = window.jupyterapp.commands.execute("notebook:run-cell");
    while (!drawn()) {
        if (performance.now() - begin > 120000) throw new Error("nothing was drawn in two minutes");
        await frame();
    }
    await frame();
    const spent = performance.now() - begin;
    await ran;
    return spent;
}"""

STEPS = """async (count) => {
    const view = document.querySelector(".explorer-view");
    const next = view.querySelector("[aria-label^='a step forward']");
    const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const work = [], painted = [];
    for (let step = 0; step < count; step++) {
        await frame();
        const begin = performance.now();
        next.click();
        view.getBoundingClientRect();
        work.push(performance.now() - begin);
        await frame();
        painted.push(performance.now() - begin);
    }
    return [work, painted];
}"""


def in_lab(notebook: Callable[..., Any], setup: str, show: str, times: int) -> tuple[list[float], list[Any]]:  # noqa: F811
    """Return the ms from running a cell until its graph is drawn, several times in one kernel, and the cells'
    outputs."""
    book = notebook(IMPORTS)
    book.execute(setup)
    spent = []
    for _ in range(times):
        index = len(book.cells)
        book.cells.append(show)
        spent.append(book.page.evaluate(DRAWN, [show, index]))
    outputs = book.page.evaluate(
        "index => window.jupyterapp.shell.currentWidget.content.model.cells.get(index).outputs.toJSON()", index
    )
    return spent, outputs


def row(name: str, spent: list[float]) -> list[str]:
    first, rest = spent[0], spent[1:] or spent
    return [name, f"{first:,.0f}", f"{statistics.median(rest):,.0f}", f"{min(rest):,.0f}"]


def test_a_file_is_drawn_in_jupyterlab(notebook: Callable[..., Any]) -> None:  # noqa: F811
    """Target: 400 ms after imports; the first run also loads the front end and the layout engine."""
    rows = []
    for name in ("resnet18", "mobilenet_v2", "encoder"):
        file = MODELS / f"{name}.pnnx.param"
        spent, _ = in_lab(notebook, "pass", f"ex.open({str(file)!r}).explore()", ROUNDS + 1)
        rows.append(row(name, spent))
    print(table("file → drawn graph, ms", ["file", "first", "median", "least"], rows, ["anywidget", "jupyterlab"]))
    assert len(rows) == 3


def test_a_cold_command_writes_a_page(tmp_path: Path) -> None:
    """Measure a new process: imports, reading, planning, layout, HTML."""
    spent = []
    page_path = tmp_path / "resnet18.html"
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        command = [sys.executable, "-m", "explorer", "show", str(RESNET), "-o", str(page_path)]
        subprocess.run(command, check=True, capture_output=True)
        spent.append((time.perf_counter() - begin) * 1000)
    print(table("explorer show resnet18, ms", ["", "first", "median", "least"], [row("page", spent)], ["numpy"]))
    assert page_path.exists()


def test_the_bytes_of_a_cell(notebook: Callable[..., Any]) -> None:  # noqa: F811
    """Target: 150 KB of picture, text and widget state together."""
    book = notebook(IMPORTS)
    rows = []
    for name in ("resnet18", "mobilenet_v2", "encoder"):
        book.execute(f"view = ex.open({str(MODELS / (name + '.pnnx.param'))!r}).explore()")
        sizes = json.loads(
            book.execute(
                "import json\n"
                "data, _ = view._repr_mimebundle_()\n"
                "parts = data, view.get_state(), view.front_end.get_state()\n"
                "print(json.dumps([len(json.dumps(part).encode()) for part in parts]))"
            )
        )
        rows.append([name, *[f"{size / 1000:,.0f}" for size in (*sizes, sum(sizes[:2]))]])
    columns = ["file", "mime data", "state", "front end, once a kernel", "data + state"]
    print(table("bytes of a cell, KB", columns, rows, ["anywidget"]))
    assert len(rows) == 3


@pytest.mark.parametrize("count", [10_000, 50_000])
def test_a_large_graph_without_scopes(notebook: Callable[..., Any], count: int) -> None:  # noqa: F811
    """Target: a first picture in 1 s at 10,000 nodes and 4 s at 50,000, with the complete graph recorded and
    planned."""
    rows = []
    for name, setup, show in (
        ("recorded, drawn as recorded", PROGRAM, f"ex.explore(flat({count}), run=False)"),
        ("recorded, planned and drawn", PROGRAM, f"planned({count}).explore()"),
        ("planned before, drawn", f"{PROGRAM}\nplan = planned({count})", "plan.explore()"),
    ):
        spent, _ = in_lab(notebook, setup, show, 3)
        rows.append(row(name, spent))
    print(table(f"{count:,} nodes without scopes, ms", ["", "first", "median", "least"], rows, ["numpy"]))
    assert len(rows) == 3


SEARCHED = """async (words) => {
    const view = document.querySelector(".explorer-view");
    view.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true }));
    const field = view.querySelector("input[type=search]");
    const work = [];
    for (const word of words) {
        field.value = word;
        const begin = performance.now();
        field.dispatchEvent(new Event("input", { bubbles: true }));
        work.push(performance.now() - begin);
    }
    return work;
}"""
ZOOMED = """async (count) => {
    const graph = document.querySelector(".ex-graph");
    const work = [];
    for (let turn = 0; turn < count; turn++) {
        const where = { clientX: 600, clientY: 400, bubbles: true, cancelable: true };
        const begin = performance.now();
        graph.dispatchEvent(new WheelEvent("wheel", { ...where, deltaY: turn % 2 ? 60 : -60, ctrlKey: true }));
        graph.getBoundingClientRect();
        work.push(performance.now() - begin);
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    }
    return work;
}"""


def test_a_page_of_wide_random_nodes(open_page: Callable[..., Any], tmp_path: Path) -> None:  # noqa: F811
    """Target: 8 s of CPU time for 100,000 operations, each on two of the previous thousand; then the browser."""
    values, seen = [], []
    for count in (25_000, 100_000):
        began = time.process_time()
        plan = read_at_random(count, 1000)
        planned_at = time.process_time()
        recording = plan.recording
        recorded_at = time.process_time()
        text = html(recording)
        drawn_at = time.process_time()
        spent = (planned_at - began, recorded_at - planned_at, drawn_at - recorded_at, drawn_at - began)
        values.append([f"{count:,}", *[f"{seconds:.1f}" for seconds in spent], f"{len(text.encode()) / 1e6:.1f}"])
        page_path = tmp_path / f"{count}.html"
        page_path.write_text(text, encoding="utf-8")
        page = open_page()
        began = time.perf_counter()
        page.goto(page_path.as_uri())
        page.wait_for_selector(".ex-node, .ex-box")
        first = (time.perf_counter() - began) * 1000
        work, _ = page.evaluate(STEPS, 10)
        zoomed, searched = page.evaluate(ZOOMED, 10), page.evaluate(SEARCHED, ["mul", "maximum", "add"])
        memory = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
        figures = [first, *map(statistics.median, (work, zoomed, searched)), memory]
        seen.append([f"{count:,}", *[f"{figure:,.0f}" for figure in figures]])
        page.close()
    print(table("a page, s", ["nodes", "recorded, planned", "recording", "page", "all", "MB"], values, ["numpy"]))
    columns = ["nodes", "first picture", "a step", "a zoom", "a search", "heap, MB"]
    print(table("that page in a browser, ms", columns, seen, ["playwright"]))
    assert len(values) == 2


def test_a_step_at_a_thousand_visible_nodes(open_page: Callable[..., Any], tmp_path: Path) -> None:  # noqa: F811
    """Target: 16 ms from the key press to the paint, with everything open."""
    page_path = tmp_path / "dag.html"
    recording = planned(1000).recording
    page_path.write_text(html(recording), encoding="utf-8")
    page = open_page()
    page.goto(page_path.as_uri())
    page.wait_for_selector(".ex-node, .ex-box")
    page.get_by_role("button", name="open all boxes").click()
    page.locator(".ex-low-detail").wait_for(state="visible")  # all of them are visible when zoomed out
    visible = len(recording.nodes)
    work, painted = page.evaluate(STEPS, 30)
    rows = [[f"{statistics.median(work):.1f}", f"{max(work):.1f}", f"{statistics.median(painted):.1f}"]]
    print(table(f"a step, {visible:,} visible nodes, ms", ["work", "most", "with two frames"], rows, ["playwright"]))
    assert visible >= 900


STEPPED = """async (count) => {
    const { view } = window;
    view.opening.all(true);
    view.camera.stand(1, view.placement.size[0] / 2, 700);
    const after = () => new Promise((done) => requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = done;
        port2.postMessage(0);
    }));
    const middle = (times) => times.sort((one, other) => one - other)[times.length >> 1];
    const rows = [];
    for (const { name, start, end } of view.timeline.stages) {
        if (end - start <= count) continue;
        view.go(start + ((end - start) >> 1));
        const [work, painted, visits] = [[], [], []];
        for (let turn = 0; turn < count; turn++) {
            await after();
            const before = view.sceneBuilder.visited;
            const begin = performance.now();
            view.step(1);
            work.push(performance.now() - begin);
            visits.push(view.sceneBuilder.visited - before);
            await after();
            painted.push(performance.now() - begin);
        }
        rows.push([name, middle(work), middle(painted), middle(visits)]);
    }
    return rows;
}"""


def test_steps_with_few_visible_nodes(open_page: Callable[..., Any]) -> None:  # noqa: F811
    """Target: script time independent of the graph's size, with everything open, at scale 1."""
    rows = []
    for count in (1_000, 10_000, 100_000):
        page = open_page()
        mount(page, payload(planned(count).recording, position=0))
        stages = page.evaluate(STEPPED, 15)
        seen = page.locator(".ex-layer-nodes > svg:not(.ex-none) > .ex-node").count()
        for name, work, painted, visits in stages:
            rows.append([f"{count:,}", f"{seen:,}", name, f"{work:.1f}", f"{painted:.1f}", f"{visits:,}"])
        page.close()
    columns = ["nodes", "drawn", "stage", "script, ms", "with paint, ms", "slots visited"]
    print(table("a step, everything open", columns, rows, ["playwright"]))
    assert rows


MOVED = """async ([kind, count]) => {
    const view = document.querySelector(".explorer-view");
    const graph = view.querySelector(".ex-graph");
    view.querySelector(".ex-stage").focus();
    const after = () => new Promise((done) => requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = done;
        port2.postMessage(0);
    }));
    for (let turn = 0; turn < 3; turn++) await after();
    const spent = [];
    for (let turn = 0; turn < count; turn++) {
        const away = turn < count / 2 ? 1 : -1;
        const how = kind === "zoom" ? { deltaY: -8 * away, ctrlKey: true } : { deltaY: 40 * away };
        const begin = performance.now();
        const where = { clientX: 500, clientY: 400, bubbles: true, cancelable: true };
        graph.dispatchEvent(new WheelEvent("wheel", { ...where, ...how }));
        await after();
        spent.push(performance.now() - begin);
    }
    return spent;
}"""


def test_frames_of_a_large_graph(open_page: Callable[..., Any], tmp_path: Path) -> None:  # noqa: F811
    """Target: 20 ms per frame at 10,000 nodes, all open, and 50 ms at 100,000; an unloaded frame takes 16 ms."""
    rows = []
    for count in (1_000, 10_000, 100_000):
        page_path = tmp_path / f"{count}.html"
        page_path.write_text(html(planned(count).recording), encoding="utf-8")
        page = open_page()
        page.goto(page_path.as_uri())
        page.wait_for_selector(".ex-node, .ex-box")
        opened = page.evaluate(
            """() => {
                const begin = performance.now();
                document.querySelector("[aria-label^='open all boxes']").click();
                document.body.getBoundingClientRect();
                return performance.now() - begin;
            }"""
        )
        figures = [statistics.median(page.evaluate(MOVED, [kind, 20])) for kind in ("pan", "zoom")]
        page.mouse.move(500, 400)
        page.keyboard.down("Control")
        while page.locator(".ex-graph.ex-far").count():
            page.mouse.wheel(0, -600)
        page.keyboard.up("Control")
        figures += [statistics.median(page.evaluate(MOVED, [kind, 20])) for kind in ("pan", "zoom")]
        elements = page.evaluate("document.querySelectorAll('.ex-graph *').length")
        rows.append([f"{count:,}", f"{opened:,.0f}", *[f"{figure:.0f}" for figure in figures], f"{elements:,}"])
        page.close()
    columns = ["nodes", "open all", "pan, whole", "zoom, whole", "pan, near", "zoom, near", "elements"]
    print(table("frames, everything open, ms", columns, rows, ["playwright"]))
    assert len(rows) == 3


@contextmanager
def netron_at(file: Path) -> Iterator[str]:
    """Netron, serving one file locally."""
    netron = pytest.importorskip("netron", reason="netron is not installed: make bench installs it")
    host, port = netron.start(str(file), 0, browse=False)
    try:
        yield f"http://{host}:{port}"
    finally:
        netron.stop((host, port))


def test_netron_draws_the_same_file(browser: Any, tmp_path: Path) -> None:  # noqa: F811
    """Measure another viewer in the same Chromium, from opening the page to its drawn graph, without network
    requests."""
    alone = tmp_path / "resnet18.html"
    rows = []
    began = time.perf_counter()
    alone.write_text(html(ex.open(RESNET).preview_plan().recording), encoding="utf-8")
    milliseconds = (time.perf_counter() - began) * 1000
    with netron_at(RESNET) as url:
        for name, address, drawn in (
            ("Netron", url, "#target .node, svg .node"),
            ("explorer, its page", alone.as_uri(), ".ex-node"),
        ):
            spent = []
            for _ in range(ROUNDS + 1):
                context = browser.new_context(viewport={"width": 1280, "height": 900})
                context.route("**/*", _only_here)
                if address.startswith("http"):
                    context.add_cookies([{"name": "consent", "value": "1", "url": address}])
                page = context.new_page()
                begin = time.perf_counter()
                page.goto(address)
                page.wait_for_selector(drawn, state="attached", timeout=60_000)
                spent.append((time.perf_counter() - begin) * 1000)
                context.close()
            rows.append(row(name, spent))
    title = f"ResNet-18, navigation → drawn, ms (explorer's page was made in {milliseconds:,.0f} ms)"
    print(table(title, ["", "first", "median", "least"], rows, ["netron", "playwright"]))
    assert len(rows) == 2


def _only_here(route: Any) -> None:
    here = route.request.url.startswith(("http://localhost", "http://127.0.0.1", "file:", "data:"))
    route.continue_() if here else route.abort()
