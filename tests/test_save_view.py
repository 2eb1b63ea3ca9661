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
from explorer.core.errors import FileError
from explorer.record import loads
from explorer.view.export.writers import WRITERS
from explorer.view.picture.svg import svg
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
@pytest.mark.parametrize("extension", sorted(WRITERS))
def test_the_extension_selects_the_form(view, extension: str, tmp_path: Path) -> None:
    """Export a view as a page, SVG, PNG, DOT, text or JSON; the file extension selects the form."""
    path = tmp_path / f"view{extension.upper()}"
    view.save(path)
    content = path.read_bytes()
    if extension == ".png":
        with Image.open(io.BytesIO(content)) as picture:
            assert picture.format == "PNG"
        return
    start = {".html": "<!doctype html>", ".svg": "<svg", ".dot": "digraph", ".txt": view.recording.title, ".json": "{"}
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


@pytest.mark.parametrize("name", ["view.pdf", "view"])
def test_an_unknown_extension_raises_an_error_that_lists_the_known_ones(view, name: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=re.escape(".html, .svg, .png, .dot, .txt, .json")):
        view.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_png_without_its_package_raises_an_error_with_the_pip_command(view, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(FileError, match=re.escape("pip install 'explorer-graphs[png]'")):
        view.save(tmp_path / "view.png")
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
