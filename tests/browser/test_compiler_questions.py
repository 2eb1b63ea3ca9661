"""Five questions about another compiler: each is answered in at most three clicks, at 1280 × 720 pixels."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

import explorer as ex
from explorer.record import Recording
from explorer.view.compare.comparison_html import page_html
from tests.browser.player import node
from tests.support.stored_compilers import inductor_recording, onnxruntime_recording, xla_recording

pytestmark = pytest.mark.browser
CLICKS = 3


class Reader:
    """Someone who opens a recording's page and counts the clicks until a question is answered."""

    def __init__(self, recording: Recording, view: Locator) -> None:
        self.recording = recording
        self.view = view
        self.panel = view.locator(".ex-why")
        self.clicks = 0

    def click(self, target: Locator) -> None:
        """Click an element, after the wheel has moved it into sight."""
        self.clicks += 1
        canvas = self.view.locator(".ex-stage").bounding_box(timeout=5_000)
        page = self.view.page
        page.mouse.move(canvas["x"] + 40, canvas["y"] + canvas["height"] / 2)
        for _ in range(30):
            area = target.bounding_box()
            if self.panel.bounding_box()["x"] <= area["x"] or area["y"] < canvas["y"]:
                break  # not on the canvas
            if area["y"] + area["height"] < canvas["y"] + canvas["height"] - 60:
                break
            page.mouse.wheel(0, 100)
        target.click()

    def chip(self, stage: str) -> Locator:
        """Return the last chip of a stage, which may be the chip of several rounds."""
        return self.view.locator(".ex-rail .ex-chip", has_text=stage).last


@pytest.fixture
def reader(page: Page, show: Callable[..., Locator], tmp_path: Path) -> Generator[Callable[[str], Reader]]:
    """Open the page of a compiler's stored recording, and check the number of clicks at the end."""
    readers: list[Reader] = []

    def open_page(compiler: str) -> Reader:
        folder = tmp_path / "sessions"
        folder.mkdir()
        make = {"xla": xla_recording, "inductor": inductor_recording}.get(compiler)
        recording = make() if make else onnxruntime_recording(folder)
        page.set_viewport_size({"width": 1280, "height": 720})
        readers.append(Reader(recording, show(recording)))
        return readers[-1]

    yield open_page
    assert all(0 < each.clicks <= CLICKS for each in readers)


@pytest.mark.spec("X-5", "X-6")
@pytest.mark.parametrize(
    ("compiler", "pair", "reason"),
    [
        ("xla", ("tanh", "multiply"), "expensive producer would be duplicated"),
        ("inductor", ("addmm", "tanh"), "is a call of extern_kernels.addmm, and Inductor fuses only loops"),
    ],
)
def test_why_two_operations_are_not_one_kernel(reader, compiler, pair, reason):
    """Click the stage that fuses, then the ✗ between the operations: two clicks."""
    asked = reader(compiler)
    asked.click(asked.chip("fusion"))
    asked.click(asked.view.locator(".ex-cross", has_text=f"why are {pair[0]} and {pair[1]} not one kernel?"))
    expect(asked.panel.locator("h4").first).to_have_text(" and ".join(pair))
    expect(asked.panel.locator(".ex-card-declined").first).to_contain_text(reason)
    assert asked.clicks == 2


@pytest.mark.spec("X-4")
def test_why_two_operators_of_a_file_are_not_one_kernel(reader):
    """The transformer that would fuse them lists what it declined: two clicks."""
    asked = reader("onnxruntime")
    asked.click(asked.chip("SkipLayerNormFusion"))
    asked.click(asked.panel.locator(".ex-decisions button", has_text="has 2 readers"))
    expect(asked.panel.locator("h4").first).to_have_text("✗ SkipLayerNormFusion")
    expect(asked.panel).to_contain_text("Add ✗→ LayerNormalization")
    expect(asked.panel).to_contain_text("stated by Explorer's reading")


@pytest.mark.spec("X-4", "X-5", "X-6")
@pytest.mark.parametrize(
    ("compiler", "name", "count"), [("xla", "reduce -inf", 2), ("inductor", "mul", 2), ("onnxruntime", "Gemm", 2)]
)
def test_which_lines_made_a_kernel(reader, compiler, name, count):
    """Click a node, of the last graph if it is new there: its kernel's lines are in the panel, as in Python."""
    asked = reader(compiler)
    recording = asked.recording
    results = [recording.named_label(kernel.nodes[-1]) for kernel in recording.schedule.kernels]
    expected = [line.text.strip() for line in recording.provenance.lines(results.index(name))]
    assert len(expected) == count
    if compiler == "onnxruntime":
        asked.click(asked.chip("order"))
    asked.click(node(asked.view, name))
    expect(asked.panel.locator(".ex-kernel-lines .ex-source code")).to_have_text(expected)


@pytest.mark.spec("X-4", "X-5", "X-6")
@pytest.mark.parametrize(
    ("compiler", "name", "passes"),
    [
        ("xla", "reshape", ["algsimp"]),
        ("inductor", "softmax", ["AOTAutograd"]),
        ("onnxruntime", "Gelu", ["BiasGeluFusion"]),
    ],
)
def test_which_pass_changed_a_node(reader, compiler, name, passes):
    """Click the node: every decision about it begins with its pass."""
    asked = reader(compiler)
    asked.click(node(asked.view, name))
    rows = asked.panel.locator(".ex-decisions .ex-at b:first-child")
    expect(rows.first).to_be_visible()
    found = [text.split(" · ")[0] for text in rows.all_inner_texts()]
    assert list(dict.fromkeys(found)) == passes


@pytest.mark.spec("X-5", "X-6")
@pytest.mark.parametrize(
    ("compiler", "title", "kernel", "values"),
    [
        ("xla", "kernel 5 of 8: 3 values, 7.38 KB", "add_reduce_fusion", ["multiply", "dot", "reduce -inf"]),
        ("inductor", "kernel 3 of 4: 2 values, 13.2 KB", "extern_kernels.addmm", ["mul", "addmm"]),
        ("onnxruntime", "kernel 14 of 30: 4 values, 3 KB", "FusedMatMul", ["Transpose"] * 3 + ["FusedMatMul"]),
    ],
)
def test_where_the_memory_peak_comes_from(reader, compiler, title, kernel, values):
    """Click the stage memory: the panel names the kernel and the values, the largest first."""
    asked = reader(compiler)
    asked.click(asked.chip("memory"))
    expect(asked.panel.locator("h5", has_text="most live")).to_have_text(f"most live, in {title}")
    expect(asked.panel.locator(".ex-living dt button")).to_have_text(values)
    link = asked.panel.get_by_title("go to this kernel")
    expect(link).to_have_text(kernel)
    asked.click(link)
    expect(asked.panel).to_contain_text("live now: ")


@pytest.mark.spec("X-7")
def test_what_differs_between_two_versions(page, tmp_path):
    """One click on the next difference shows what was decided about it on both sides."""
    recordings = [xla_recording(version) for version in ("0.7.2", "0.10.2")]
    (tmp_path / "diff.html").write_text(page_html(ex.compare(*recordings)), encoding="utf-8")
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto((tmp_path / "diff.html").as_uri())
    head = page.locator(".ex-pair-head")
    expect(head.locator(".ex-differences span")).to_have_text(["− 2 removed", "+ 5 added", "≠ 1 in other kernels"])
    panels = page.locator(".ex-side .ex-why")
    expect(head).to_contain_text("8 differ")
    head.get_by_role("button", name="the next difference").click()
    for side, card in enumerate((".ex-card-declined", ".ex-card-applied")):
        expect(panels.nth(side).locator("h4").first).to_have_text("reduce 0")
        expect(panels.nth(side).locator(card).first).to_contain_text("fusion")
    expect(panels.nth(0)).to_contain_text("reduce 0 is not fused into divide: Fusion is not profitable")
    expect(panels.nth(1)).to_contain_text("are one kernel, reduce_divide_fusion")
