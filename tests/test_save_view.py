"""Saved files of views: each extension, the state that the user saw, and errors before anything is written."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import explorer as ex
from explorer.core.errors import FileError, OperandError, StateError, UnknownNameError
from explorer.record import Recording, loads
from explorer.view.export.writers import WRITERS
from explorer.view.picture.svg import svg
from explorer.view.replay.steps import step_at
from tests.support.large import planned


@pytest.fixture
def view():
    x = ex.tensor(np.ones((4, 8), np.float32), name="x")
    return ex.explore(ex.sum(ex.tanh(x * 2 + 1)), run=False)


def page_options(page: str) -> dict[str, object]:
    """Return the options that a page was written with."""
    data = re.search(r'id="explorer-data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    options: dict[str, object] = json.loads(data[1])["options"]
    return options


@pytest.mark.spec("V-14", headline=True)
@pytest.mark.parametrize("extension", sorted(WRITERS.keys() - {".c", ".pdf", ".trace.json"}))
def test_the_extension_selects_the_form(view, extension: str, tmp_path: Path) -> None:
    """Export a view as a page, an image, a graph, text or JSON; the file extension selects the form.

    tests/hosts/test_pdf.py writes PDF, and a trace needs a run.
    """
    path = tmp_path / f"view{extension.upper()}"
    view.save(path)
    content = path.read_bytes()
    if extension == ".png":
        with Image.open(io.BytesIO(content)) as picture:
            assert picture.format == "PNG"
        return
    start = {".html": "<!doctype html>", ".svg": "<svg", ".dot": "digraph", ".txt": view.recording.title}
    start |= {".mmd": "flowchart TD", ".graphml": "<?xml", ".json": "{"}
    assert content.decode().startswith(start[extension])
    assert "tanh" in content.decode()
    if extension == ".json":
        assert loads(content.decode()).fingerprint == view.recording.fingerprint


@pytest.mark.spec("V-14")
def test_an_image_shows_the_current_step_of_the_view(view, tmp_path: Path) -> None:
    """At the first step it is the recorded graph, and at the end it has kernels."""
    view.step = 0
    view.save(tmp_path / "first.svg")
    view.step = view.last_step
    view.save(tmp_path / "last.svg")
    assert 'class="kernel"' not in (tmp_path / "first.svg").read_text()
    assert 'class="kernel"' in (tmp_path / "last.svg").read_text()


@pytest.mark.spec("V-14")
def test_to_html_returns_the_page_that_save_writes(view, tmp_path: Path) -> None:
    view.step, view.selected = 2, 1
    view.save(tmp_path / "page.html")
    assert view.to_html() == (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_page_starts_in_the_state_of_the_view(view, tmp_path: Path) -> None:
    view.step, view.selected = 2, 1
    view.save(tmp_path / "page.html")
    assert page_options((tmp_path / "page.html").read_text())["start"] == f"stage={view.stage}&step=2&node=1"
    view.open_boxes = [3, 1]
    view.save(tmp_path / "page.html")
    assert page_options((tmp_path / "page.html").read_text())["start"] == f"stage={view.stage}&step=2&node=1&open=1,3"


def test_boxes_are_open_in_the_image_as_in_the_view(tmp_path: Path) -> None:
    view = ex.open(Path(__file__).parents[1] / "assets" / "digits.pnnx.param").explore()
    view.open_boxes = []
    view.save(tmp_path / "closed.svg")
    view.open_boxes = list(range(len(view.payload["layout"]["boxes"])))
    view.save(tmp_path / "open.svg")
    closed, opened = ((tmp_path / name).read_text().count('class="open"') for name in ("closed.svg", "open.svg"))
    assert closed == 0 < opened


def test_a_file_has_the_direction_of_the_view(view, tmp_path: Path) -> None:
    view.direction = "right"
    view.save(tmp_path / "right.svg")
    view.save(tmp_path / "right.html")
    position = view.state.position(view.recording)
    assert (tmp_path / "right.svg").read_text() == svg(view.recording, position, direction="right")
    assert '"direction":"right"' in (tmp_path / "right.html").read_text()


def test_a_stage_shown_as_a_whole_is_saved_as_a_whole(view, tmp_path: Path) -> None:
    view.show_whole("fuse")
    view.save(tmp_path / "whole.svg")
    view.stage, view.step = view.recording.stages[0].name, 0
    view.save(tmp_path / "before.svg")
    whole, before = ((tmp_path / name).read_text().count('class="kernel"') for name in ("whole.svg", "before.svg"))
    assert before == 0 < whole


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_png_has_the_theme_and_twice_the_size(view, theme: str, tmp_path: Path) -> None:
    view.theme = theme
    view.save(tmp_path / "view.svg")
    view.save(tmp_path / "view.png")
    width, height = re.findall(r' width="(\d+)" height="(\d+)" style=', (tmp_path / "view.svg").read_text())[0]
    with Image.open(tmp_path / "view.png") as picture:
        assert picture.size == (2 * int(width), 2 * int(height))
        colours = picture.convert("RGB").getcolors(1 << 20)
        ground = max(colours)[1]
    assert ground == ((255, 255, 255) if theme == "light" else (0x11, 0x15, 0x1D))
    assert len(colours) > 20, "text is drawn with soft edges"


@pytest.mark.parametrize("name", ["view.jpg", "view"])
def test_an_unknown_extension_raises_an_error_that_lists_the_known_ones(view, name: str, tmp_path: Path) -> None:
    with pytest.raises(
        FileError, match=re.escape(".html, .svg, .png, .pdf, .dot, .mmd, .graphml, .txt, .json, .trace.json")
    ):
        view.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("form", "package"), [("png", "resvg_py"), ("pdf", "typst")])
def test_a_missing_package_raises_an_error_with_the_pip_command(
    view, form: str, package: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(FileError, match=re.escape(f"pip install 'explorer-graphs[{form}]'")):
        view.save(tmp_path / f"view.{form}")
    assert not list(tmp_path.iterdir())


def test_a_png_without_any_font_raises_an_error(view, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(
        "explorer.view.picture.png._LETTER", "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>"
    )
    with pytest.raises(FileError, match="DejaVu"):
        view.save(tmp_path / "view.png")
    assert not list(tmp_path.iterdir())


def test_an_image_too_large_for_a_png_raises_an_error(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("explorer.view.picture.png.MAX_SIDE", 100)
    view = ex.explore(planned(20))
    with pytest.raises(FileError, match="at most 100 px per side"):
        view.save(tmp_path / "view.png")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def digits():
    return ex.open(Path(__file__).parents[1] / "assets" / "digits.pnnx.param").explore()


@pytest.mark.spec("Q-10")
def test_an_image_shows_a_stage_and_a_depth(digits, tmp_path: Path) -> None:
    """`view.save("x.svg", stage="fuse", depth=0)` draws a stage with closed boxes; the view stays as it is."""
    before = digits.state
    digits.save(tmp_path / "stage.svg", stage="fuse", depth=0)
    assert digits.state == before
    digits.show_whole("fuse")
    digits.collapse()
    digits.save(tmp_path / "view.svg")
    drawn = (tmp_path / "stage.svg").read_text()
    assert drawn == (tmp_path / "view.svg").read_text()
    assert 'class="open"' not in drawn


@pytest.mark.spec("Q-10")
def test_closed_boxes_of_a_stage_have_the_numbers_of_its_decisions(digits, tmp_path: Path) -> None:
    """Each decision of the stage about a node inside counts, and no decision of another stage."""
    digits.save(tmp_path / "stage.svg", stage="fuse", depth=0)
    drawn = (tmp_path / "stage.svg").read_text()
    recording = digits.recording
    nodes, residual = recording.nodes, [row.name for row in recording.scopes].index("residual")
    inside = {node for node, scope in enumerate(nodes.scope) if within(recording, scope, residual)}
    (fuse,) = (stage for stage in recording.stages if stage.name == "fuse")
    counts = {"applied": 0, "declined": 0}
    for index in range(fuse.first, fuse.last):
        row = recording.decisions[index]
        changed = {node for node in range(len(nodes)) if index in (nodes.born[node], nodes.gone[node])}
        counts[row.verdict] += bool(inside & {*row.subjects, *row.produced, *changed})
    pill = f'<tspan class="applied">{counts["applied"]}✓</tspan><tspan class="declined"> {counts["declined"]}✗</tspan>'
    assert min(counts.values()) > 0
    assert pill in drawn
    digits.save(tmp_path / "end.svg", depth=0)
    assert "tspan" not in (tmp_path / "end.svg").read_text()


def within(recording: Recording, scope: int, outer: int) -> bool:
    """Return whether a scope is another one, or inside it."""
    while scope not in (outer, 0):
        scope = recording.scopes[scope].parent
    return scope == outer


@pytest.mark.spec("Q-10", headline=True)
def test_an_image_for_a_paper_fits_into_a_column_and_is_legible(digits, tmp_path: Path) -> None:
    """Save a net or a stage as SVG, PNG or PDF with a width in cm, on which text has at least 6 pt."""
    digits.save(tmp_path / "paper.svg", stage="fuse", depth=0, width=8.5)
    digits.save(tmp_path / "paper.png", stage="fuse", depth=0, width=8.5)
    drawn = (tmp_path / "paper.svg").read_text()
    ((wide, high),) = re.findall(r' width="([\d.]+)cm" height="([\d.]+)cm"', drawn)
    (units,) = re.findall(r'viewBox="-?\d+ -?\d+ (\d+) ', drawn.partition("</style>")[2] or drawn)
    points = float(wide) / 2.54 * 72 / float(units)
    smallest = min(map(float, re.findall(r"font-size:([\d.]+)px", drawn)))
    assert float(wide) <= 8.5
    assert float(high) <= 24
    assert points * smallest >= 6
    assert "var(" not in drawn
    with Image.open(tmp_path / "paper.png") as image:
        assert round(image.info["dpi"][0]) == 300
        assert image.width == pytest.approx(float(wide) / 2.54 * 300, abs=1)


@pytest.mark.spec("Q-10")
def test_an_illegible_width_raises_an_error_with_a_legible_depth_and_width(digits, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"at least 6 pt") as error:
        digits.save(tmp_path / "paper.svg", depth=3, width=8.5)
    assert "depth 0, which is legible" in str(error.value)
    digits.direction = "right"
    with pytest.raises(FileError, match=r"at a width of 6 cm") as error:
        digits.save(tmp_path / "paper.svg", depth=0, width=6)
    needed = re.search(r'a width of ([\d.]+) cm, or direction "down"', str(error.value))
    assert needed
    assert 6 < float(needed[1]) < 12
    assert not list(tmp_path.iterdir())
    digits.save(tmp_path / "paper.svg", depth=0, width=float(needed[1]))


def test_only_images_have_a_width(view, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"only pictures \(.svg, .png, .pdf\)"):
        view.save(tmp_path / "view.html", width=8.5)
    with pytest.raises(OperandError, match="positive number"):
        view.save(tmp_path / "view.svg", width=0)
    with pytest.raises(UnknownNameError, match="unknown stage 'fuze'"):
        view.save(tmp_path / "view.svg", stage="fuze")


def test_a_png_shows_the_edges_that_a_step_declined_to_fuse(digits, tmp_path: Path) -> None:
    recording = digits.recording
    for decision, *_ in recording.declined_edges:
        digits.step = step_at(recording, decision + 1)
        digits.save(tmp_path / "view.svg")
        if 'class="declined"' in (tmp_path / "view.svg").read_text():
            break
    else:
        pytest.fail("no step has a declined edge in sight")
    digits.save(tmp_path / "view.png")
    with Image.open(tmp_path / "view.png") as image:
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 20)}
    assert (0xA8, 0x48, 0x0A) in colours, "the ✗ has the colour of warnings"


@pytest.mark.spec("H-7")
def test_a_trace_needs_a_run(view, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"run the plan first \(plan.eval\(\)\)"):
        view.save(tmp_path / "run.trace.json")
    assert not list(tmp_path.iterdir())
    ex.explore(ex.exp(ex.tensor([1.0]))).save(tmp_path / "run.TRACE.json")
    assert json.loads((tmp_path / "run.TRACE.json").read_text(encoding="utf-8"))["traceEvents"]


@pytest.mark.spec("K-2")
def test_a_c_file_has_the_kernels_and_the_functions_that_they_call(tmp_path: Path) -> None:
    x = ex.tensor(np.ones((100, 100), np.float32))
    plan = ex.EvalPlan(kernels="native")
    for operand in (x, ex.tensor(np.ones((100, 100), np.float32))):
        plan.register(ex.tanh(operand * 2))
    plan.prepare().explore().save(tmp_path / "kernels.c")
    text = (tmp_path / "kernels.c").read_text(encoding="utf-8")
    assert text.index("INLINE f32 tanh_f32(f32 x) {") < text.index("void compute_multiply_tanh(")
    assert text.count("\nvoid ") == 1
    assert not re.search("Reductions of rows|Products of rows", text)  # no kernel calls their functions
    with pytest.raises(FileError, match='kernels="native", or --kernels native'):
        ex.explore(ex.exp(x)).save(tmp_path / "none.c")
    assert not (tmp_path / "none.c").exists()


@pytest.mark.spec("H-7", headline=True)
@pytest.mark.parametrize("form", sorted({extension[1:] for extension in WRITERS} - {"c", "pdf", "trace.json"}))
def test_an_open_file_gets_what_a_path_gets(view, form: str, tmp_path: Path) -> None:
    """Write a view to an open file, and hand it to other programs: NetworkX, pandas, Mermaid, GraphML, Perfetto."""
    view.save(tmp_path / f"view.{form}")
    buffer = io.BytesIO()
    view.save(buffer, format=form)
    assert buffer.getvalue() == (tmp_path / f"view.{form}").read_bytes()
    if form != "png":
        strings = io.StringIO()
        view.save(strings, format=form, depth=0)
        view.save(tmp_path / f"closed.{form}", depth=0)
        assert strings.getvalue() == (tmp_path / f"closed.{form}").read_text(encoding="utf-8")


@pytest.mark.spec("H-7")
def test_errors_about_open_files_state_the_format_to_give(view, tmp_path: Path) -> None:
    with pytest.raises(OperandError, match=r'view.save\(file, format="svg"\)'):
        view.save(io.BytesIO())
    with pytest.raises(UnknownNameError, match="svg"):
        view.save(io.BytesIO(), format="svgz")
    with pytest.raises(OperandError, match="consists of bytes"):
        view.save(io.StringIO(), format="png")
    with pytest.raises(OperandError, match="omit format"):
        view.save(tmp_path / "view.svg", format="svg")
    with pytest.raises(OperandError, match="path must be a path, or a file that is open for writing"):
        view.save(3)
    assert not list(tmp_path.iterdir())


@pytest.mark.spec("H-7")
@pytest.mark.parametrize("package", ["networkx", "pandas"])
def test_a_missing_library_raises_an_error_with_the_pip_command(view, package: str, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(StateError, match=f"pip install {package}"):
        getattr(view, f"to_{package}")()


@pytest.mark.spec("H-7")
def test_networkx_gets_the_graph_of_the_step_or_of_a_stage(view) -> None:
    view.step = 0
    assert not [data for _, data in view.to_networkx().nodes(data=True) if "kernel" in data]
    assert [data for _, data in view.to_networkx(stage="fuse").nodes(data=True) if "kernel" in data]
    with pytest.raises(UnknownNameError, match="unknown stage 'fuze'"):
        view.to_networkx(stage="fuze")


@pytest.mark.spec("H-7")
def test_pandas_gets_three_tables_of_a_view() -> None:
    tables = ex.explore(ex.sum(ex.tanh(ex.tensor(np.ones((4, 8))) * 2))).to_pandas()
    assert tables.nodes.operation.tolist()[-1] == "sum"
    assert (tables.kernels.time_us > 0).all()
    assert tables.decisions.query("verdict == 'applied'").stage.tolist() == ["fuse"]
