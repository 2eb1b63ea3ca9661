"""Explorer against other model viewers, each in a cell of one JupyterLab: from running the cell to the picture.

Netron and Model Explorer are frames of running servers with the file available; what they read before is not counted.
Libraries are imported, and the user has typed the next cell. Explorer draws a large graph twice, as recorded and with
every stage; its second row is the latter's time. A slider of ipywidgets is the lower bound: a cell's round trip to the
kernel, and one widget. All draw in one Chromium without a graphics card, so Model Explorer's WebGL is drawn by the
processor, too.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Error, Page, sync_playwright
from playwright.sync_api import TimeoutError as Late

from tests.bench.contest import table
from tests.browser.conftest import lab  # noqa: F401
from tests.browser.notebook import Lab, Notebook

pytestmark = [pytest.mark.bench, pytest.mark.browser]

RESNET = Path(__file__).parents[2] / "assets" / "models" / "resnet18.onnx"
WEBGL = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
PATIENCE = 120
ROUNDS = 3
PAUSE = 3_000
"""ms from the import cell to the first picture, while the user types; explorer's kernel imports ahead meanwhile"""
RUN = """async (code) => {
    const { content } = window.jupyterapp.shell.currentWidget;
    const index = content.model.cells.length;
    content.model.sharedModel.insertCell(index, { cell_type: "code", source: code });
    content.activeCellIndex = index;
    content.deselectAll();
    window.ran = window.jupyterapp.commands.execute("notebook:run-cell");
}"""
FLOOR = "a slider"
DRAWN = {
    FLOOR: ".widget-slider",
    "explorer": ".ex-node, .ex-box",
    "explorer, every stage": ".ex-chip ~ .ex-chip",
}
"""what a viewer in the notebook's page has drawn of a graph; viewers in a frame are queried with WATCH"""
WATCH = """() => {
    if (window === window.top) {
        window.addEventListener("message", ({ data }) => { window.frameDrawn ||= data === "drawn"; });
        return;
    }
    const parts = (root) => [...root.querySelectorAll("*")].flatMap(
        (item) => [item, ...item.shadowRoot ? parts(item.shadowRoot) : []],
    );
    const isDrawn = () => {
        if (document.querySelector("#target .node, svg .node")) return true;  // Netron
        const all = document.title.includes("Model Explorer") ? parts(document) : [];
        const busy = (item) => item.childElementCount === 0 && item.checkVisibility()
            && item.textContent.includes("Processing graph");
        return all.some((item) => item.matches("webgl-renderer canvas")) && !all.some(busy);
    };
    const timer = setInterval(() => {
        if (!isDrawn()) return;
        clearInterval(timer);
        window.top.postMessage("drawn", "*");
    }, 10);
}"""
"""script of each page and frame, with which a frame notifies the page when its graph is drawn"""
SEEN = """(selector) => selector === null ? window.frameDrawn
    : [...document.querySelectorAll(".jp-Cell")].at(-1).querySelector(selector) !== null"""


@pytest.fixture(scope="module")
def drawing() -> Iterator[Browser]:
    """A Chromium whose WebGL is drawn by the processor."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=WEBGL)
        yield launched
        launched.close()


def wide(count: int, target: Path) -> Path:
    """Write an ONNX file of nodes without scopes, each of which reads one or two of the previous forty."""
    onnx = pytest.importorskip("onnx")
    make, pick = onnx.helper, random.Random(7)
    names, nodes = ["x"], []
    for number in range(count):
        operator = pick.choice(["Add", "Mul", "Tanh", "Relu"])
        read = [pick.choice(names[-40:]) for _ in range(2 if operator in ("Add", "Mul") else 1)]
        nodes.append(make.make_node(operator, read, [f"v{number}"], name=f"n{number}"))
        names.append(f"v{number}")
    ends = [make.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 4]) for name in ("x", names[-1])]
    graph = make.make_graph(nodes, "wide", ends[:1], ends[1:])
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), target)
    return target


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server(command: list[str], port: int) -> Iterator[None]:
    """Run a server until the block ends; it responds before the block begins."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    pytest.fail(f"{command} does not answer", pytrace=False)
                time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def cells(file: Path) -> Iterator[dict[str, str]]:
    """Yield the cell of each viewer that shows a file, while the servers run."""
    pytest.importorskip("netron")
    pytest.importorskip("model_explorer")
    one, other = free_port(), free_port()
    netron = f"import netron, threading; netron.start({str(file)!r}, {one}, browse=False); threading.Event().wait()"
    serve = "from model_explorer.__main__ import main; main()"
    options = ["--no_open_in_browser", f"--port={other}", "--extensions=model_explorer_onnx"]
    data = quote(json.dumps({"models": [{"url": str(file), "adapterId": "onnx-adapter"}]}))
    with server([sys.executable, "-c", netron], one), server([sys.executable, "-c", serve, *options], other):
        yield {
            FLOOR: "IntSlider()",
            "explorer": f"ex.open({str(file)!r}).explore()",
            "explorer, every stage": f"ex.open({str(file)!r}).explore()",
            "Netron": f"IFrame('http://127.0.0.1:{one}/', 1000, 560)",
            "Model Explorer": f"IFrame('http://127.0.0.1:{other}/?data={data}', 1000, 560)",
        }


def drawn_in(page: Page, viewer: str, code: str) -> float | None:
    """Return the ms from running a cell until its graph is drawn, or None if the tab dies or nothing is drawn in
    time."""
    begin = time.perf_counter()
    try:
        page.evaluate("() => { window.frameDrawn = false; }")
        page.evaluate(RUN, code)
        # The browser draws no invisible frames of another origin.
        page.locator(".jp-Cell").last.scroll_into_view_if_needed()
        # Check at each frame: a locator polls every half second, which cannot distinguish 0.3 s from 0.7.
        page.wait_for_function(SEEN, arg=DRAWN.get(viewer), polling="raf", timeout=PATIENCE * 1000)
        spent = (time.perf_counter() - begin) * 1000
        page.evaluate("() => window.ran.then(() => true)")
    except Late:
        return None
    except Error as error:
        if not re.search("crashed|closed", error.message):
            raise
        return None
    return spent


def started(lab: Lab, page: Page, imports: str) -> Page:  # noqa: F811
    """Return a page in which a notebook has imported the libraries."""
    lab.open(page)
    page = Notebook.run(lab, page, [imports], "JupyterLab Light").page
    page.wait_for_timeout(PAUSE)
    return page


def compared(drawing: Browser, lab: Lab, file: Path, rounds: int) -> list[list[str]]:  # noqa: F811
    """Return rows of times, with viewers interleaved; one that fails is omitted, and the next gets a new page."""
    with cells(file) as code, drawing.new_context(viewport={"width": 1280, "height": 900}) as context:
        context.route("**/*", _only_here)
        context.add_init_script(f"({WATCH})()")
        imports = "import explorer as ex\nfrom IPython.display import IFrame\nfrom ipywidgets import IntSlider"
        page = started(lab, context.new_page(), imports)
        racing = list(code)
        spent: dict[str, list[float]] = {name: [] for name in code}
        for _ in range(rounds):
            for name in list(racing):
                duration = drawn_in(page, name, code[name])
                if duration is None:
                    racing.remove(name)
                    page.close()
                    page = started(lab, context.new_page(), imports)
                else:
                    spent[name].append(duration)
    ours = statistics.median(spent["explorer"][1:] or spent["explorer"])
    rows = []
    for name, times in spent.items():
        if name in racing:
            warm = statistics.median(times[1:] or times)
            rows.append([file.stem, name, f"{times[0]:,.0f}", f"{warm:,.0f}", f"{warm / ours:.2f}"])
        else:
            rows.append([file.stem, name, "not drawn", "", ""])
    return rows


def _only_here(route: Any) -> None:
    """Abort requests that leave the machine; Netron requests the country, and asks for consent without it."""
    url = route.request.url
    if url.startswith("https://ipinfo.io/"):
        route.fulfill(json={"country": "US"})
    elif url.startswith(("http://localhost", "http://127.0.0.1", "blob:", "data:")):
        route.continue_()
    else:
        route.abort()


@pytest.mark.parametrize("count", [None, 1_000, 10_000, 50_000], ids=["resnet18", "1000", "10000", "50000"])
def test_a_cell_against_netron_and_model_explorer(
    drawing: Browser,
    lab: Lab,  # noqa: F811
    tmp_path: Path,
    count: int | None,
) -> None:
    """ResNet-18, and wide graphs of 1,000, 10,000 and 50,000 nodes in ONNX files."""
    file = RESNET if count is None else wide(count, tmp_path / f"wide {count}.onnx")
    rows = compared(drawing, lab, file, ROUNDS + 1 if file == RESNET else ROUNDS)
    columns = ["file", "viewer", "first", "warm", ": explorer"]
    packages = ["netron", "ai-edge-model-explorer", "jupyterlab", "playwright"]
    print(table("cell → picture, ms", columns, rows, packages))
    assert [name for _, name, *_ in rows][:2] == [FLOOR, "explorer"]
