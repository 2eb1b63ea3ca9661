"""The course is what assets/course.py makes of its lessons: goals, needs, minutes, links, the map and the glossary."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import nbformat
import pytest
from nbconvert import SlidesExporter

from assets import course, figures
from explorer.record.glossary import GLOSSARY
from explorer.site.build import build_site
from explorer.view.payload.stored import MIME, restored
from tests.support.unpacked import unpack

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def prose(path: Path) -> str:
    return "\n\n".join(c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "markdown")


def test_the_course_is_that_of_its_lessons() -> None:
    """``python assets/course.py`` would change nothing, and the map has every notebook, in order."""
    assert [f"{lesson.name}.ipynb" for lesson in course.LESSONS] == [path.name for path in NOTEBOOKS]
    assert [path.name for path, text in course.pages().items() if path.read_text(encoding="utf-8") != text] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_cell_and_no_heading_of_a_notebook_stands_twice(path: Path) -> None:
    """Links to other notebooks end it once, and a heading leads to one place."""
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"]
    headings = re.findall(r"^#+ (.+)$", "\n".join(cells), re.MULTILINE)
    for texts in (cells, [heading for heading in headings if heading != "Exercises"]):
        assert sorted(texts) == sorted(set(texts))


def test_one_name_leads_binder_and_colab_to_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course, "REPOSITORY", "someone/explorer")
    page = course.pages()[course.PUBLISHING]
    assert "https://mybinder.org/v2/gh/someone/explorer/HEAD?urlpath=lab/tree/notebooks`" in page
    assert "git clone https://github.com/someone/explorer copy &&" in page
    assert "OWNER" not in page


def test_a_lesson_needs_lessons_before_it() -> None:
    for place, lesson in enumerate(course.LESSONS):
        assert 10 <= lesson.minutes <= 60
        assert set(lesson.needs) <= {before.name[:2] for before in course.LESSONS[:place]}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_of_a_notebook_lead_somewhere(path: Path) -> None:
    """Relative links lead to files, those to the glossary to a term, those into Markdown to a heading."""
    for target in re.findall(r"\]\((?!https?:|#explorer:)([^)\s]+)\)", prose(path)):
        file, _, part = unquote(target).partition("#")
        assert (path.parent / file).exists(), target
        if part:
            headings = re.findall(r"^#+ (.+)$", (path.parent / file).read_text(encoding="utf-8"), re.MULTILINE)
            assert part in {heading.replace(" ", "-") for heading in headings} | {
                heading.replace(" ", "-").lower() for heading in headings
            }, target


def nearest_view(notebook: nbformat.NotebookNode, cell: int) -> Any:
    """The recording's tables in the stored view whose cell is nearest to another cell."""
    views = [
        (abs(number - cell), output.data[MIME])
        for number, each in enumerate(notebook.cells)
        for output in each.get("outputs", [])
        if MIME in output.get("data", {})
    ]
    return unpack(restored(min(views, key=lambda view: view[0])[1])["recording"])


def scope_paths(recording: Any, node: int) -> list[str]:
    """Paths of the boxes around a node, the outermost first."""
    names, row = [], recording["nodes"]["scope"][node]
    while row >= 0 and recording["scopes"][row]["kind"] != "top":
        names.append(recording["scopes"][row]["name"])
        row = recording["scopes"][row]["parent"]
    names.reverse()
    return [" / ".join(names[: depth + 1]) for depth in range(len(names))]


@pytest.mark.spec("V-21")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_into_a_view_name_what_it_holds(path: Path) -> None:
    """A stage, a decision of it, a kernel, a node: each is in the recording of the view that is nearest."""
    notebook = nbformat.read(path, as_version=4)
    for number, cell in enumerate(notebook.cells):
        links = re.findall(r"\]\(#explorer:([^)\s]+)\)", cell.source) if cell.cell_type == "markdown" else []
        for link in links:
            named = dict(parse_qsl(link, strict_parsing=True))
            assert set(named) <= {"stage", "decision", "kernel", "node"}, link
            recording = nearest_view(notebook, number)
            stages = [stage["name"] for stage in recording["stages"]]
            assert named.get("stage", stages[0]) in stages, link
            if "decision" in named:
                row = stages.index(named["stage"])
                decisions = [each for each in recording["decisions"] if each["stage"] == row]
                assert any(named["decision"] in (each["rule"], each["code"]) for each in decisions), link
            if "kernel" in named:
                assert 1 <= int(named["kernel"]) <= len(recording["schedule"]["kernels"]), link
            if "node" in named:
                labels = recording["nodes"]["label"]
                paths = {path for node in range(len(labels)) for path in scope_paths(recording, node)}
                assert named["node"] in {*labels, *paths}, link


def test_first_uses_of_terms_lead_to_the_glossary_once() -> None:
    links = [one for path in NOTEBOOKS for one in re.findall(r"glossary\.md#([^)]+)\)", prose(path))]
    assert sorted(links) == sorted(set(links))
    assert {link.replace("-", " ") for link in links} <= {term.replace("-", " ") for term in GLOSSARY}
    assert len(links) >= len(course.LINKED) - 3


def test_a_term_inside_code_is_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [nbformat.v4.new_markdown_cell("# The kernel\n\n`kernel`, then a kernel and a kernel.", id="a")]
    notebook, waiting = nbformat.v4.new_notebook(cells=cells), ["kernel", "arena"]
    course._link(notebook, waiting)
    linked = "# The kernel\n\n`kernel`, then a [kernel](../assets/glossary.md#kernel) and a kernel."
    assert (notebook.cells[0].source, waiting) == (linked, ["arena"])


@pytest.mark.spec("V-21")
def test_figures_are_drawn_from_recordings() -> None:
    """``python assets/figures.py`` would change nothing, and each figure stands in a notebook, with words for it."""
    drawn = figures.figures()
    for name, text in drawn.items():
        assert (figures.FIGURES / f"{name}.svg").read_text(encoding="utf-8") == text
        assert "prefers-color-scheme:dark" in text
    shown = [one for path in NOTEBOOKS for one in re.findall(r"!\[([^\]]{40,})\]\(figures/(\w+)\.svg\)", prose(path))]
    assert sorted(name for _, name in shown) == sorted(drawn)


def test_a_page_of_the_site_holds_its_figures(tmp_path: Path) -> None:
    (path,) = [path for path in NOTEBOOKS if path.name.startswith("10")]
    build_site([path], tmp_path, "Memory")
    page = (tmp_path / f"{path.stem}.html").read_text(encoding="utf-8")
    (source,) = re.findall(
        r'<img\b[^>]*\bsrc="([^"]{40})[^"]*"[^>]*alt="a is live|alt="a is live[^>]*\bsrc="([^"]{40})', page
    )
    assert "".join(source).startswith("data:image/svg+xml;base64,")


@pytest.mark.spec("V-21")
def test_notebooks_are_slides() -> None:
    """nbconvert makes slides of a notebook: one at each heading, with pictures, and without cells for answers."""
    (path,) = [path for path in NOTEBOOKS if path.name.startswith("05")]
    page, _ = SlidesExporter().from_filename(str(path))
    cells = nbformat.read(path, as_version=4).cells
    prose_cells = [cell for cell in cells if cell.cell_type == "markdown" and "next" not in cell.id]
    headings = [cell for cell in prose_cells if cell.source.startswith(("# ", "## "))]
    assert page.count("<section>") >= 2 * len(headings)  # a stack of slides in each, as reveal.js has it
    assert "data:image/svg+xml" in page or "<svg" in page
    assert "Your answer" not in page
