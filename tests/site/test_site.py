"""Sites of notebooks: self-contained, linked pages, of which all or none are written."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import explorer as ex
from assets import course
from explorer.cli import main
from explorer.core.errors import ExplorerError, FileError
from explorer.site import clean_body
from explorer.site.build import build_site
from explorer.site.chapter import Chapter
from explorer.view.payload import stored as stored_views
from explorer.view.payload.stored import MIME, restored
from tests.support.leading_markup import LEADING

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EVIL = "</script><img src=x onerror=alert(1)>\"'&"


class Elements(HTMLParser):
    """Tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def notebook(path: Path, *cells: object) -> Path:
    nbformat.write(new_notebook(cells=list(cells)), path)
    return path


def view(name: str = "x") -> nbformat.NotebookNode:
    """Return a cell whose output contains a view."""
    data, _ = ex.explore(ex.tanh(ex.tensor(np.ones(3), name=name)))._repr_mimebundle_()
    kept = {mime: value for mime, value in data.items() if "widget" not in mime}
    return new_code_cell("ex.explore(y)", outputs=[new_output("execute_result", data=kept)], execution_count=1)


def page(folder: Path, name: str) -> str:
    return (folder / f"{name}.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def textbook(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Chapter]]:
    """A site of all notebooks, and its chapters."""
    folder = tmp_path_factory.mktemp("textbook")
    return folder, build_site(NOTEBOOKS, folder, "Explorer")


@pytest.mark.spec("V-21")
def test_the_tutorials_become_a_site(textbook: tuple[Path, list[Chapter]]) -> None:
    """Each notebook becomes a page with all its views, of at most 1.5 MB with the front end; an index lists them."""
    folder, chapters = textbook
    assert [chapter.name for chapter in chapters] == [path.stem for path in NOTEBOOKS]
    for path, chapter in zip(NOTEBOOKS, chapters, strict=True):
        outputs = [
            output.get("data", {})
            for cell in nbformat.read(path, as_version=4).cells
            for output in cell.get("outputs", [])
        ]
        text = page(folder, chapter.name)
        stored = re.findall(r'<script type="application/json">(.*?)</script>', text)
        assert [json.loads(each) for each in stored] == [data[MIME] for data in outputs if MIME in data]
        assert chapter.views == len(stored) > 0
        assert text.count("<h1") == 1
        assert len(text.encode()) < 1.5e6
        assert text.count('<script type="module">') == 1
    index = page(folder, "index")
    for chapter in chapters:
        assert chapter.summary
        assert f'href="{chapter.name}.html"' in index


@pytest.mark.spec("V-21")
def test_the_site_contains_the_map_and_the_glossary(textbook: tuple[Path, list[Chapter]]) -> None:
    """The index has each notebook's goal, prerequisites and minutes; links between notebooks lead to pages."""
    folder, _ = textbook
    index = (folder / "index.html").read_text(encoding="utf-8")
    for lesson in course.LESSONS:
        assert f"Takes: about {lesson.minutes} minutes." in index
    for path in folder.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        for target in re.findall(r'<a\b[^>]*\bhref="([^"#][^"]*)"', text):
            assert not re.search(r"\.(ipynb|md)(#|$)", target), f"{path.name}: {target}"
            file, _, part = unquote(target).partition("#")
            if not target.startswith("http"):
                assert (folder / file).is_file(), f"{path.name}: {target}"
                assert not part or f'id="{part}"' in (folder / file).read_text(encoding="utf-8"), target


def test_notebooks_keep_their_numbers(tmp_path: Path) -> None:
    """Notebooks refer to each other by number, "Needs: 01"; index and contents have each number once."""
    titles = {"01_a plan": "A plan", "02 next": "2. Next", "2024_report": "A report", "notes": "Notes"}
    paths = [notebook(tmp_path / f"{name}.ipynb", new_markdown_cell(f"# {title}")) for name, title in titles.items()]
    chapters = build_site(paths, tmp_path / "out", "Numbers")
    assert [chapter.number for chapter in chapters] == ["01", "", "", ""]
    for name in ("index", "notes"):
        text = re.sub(r"<[^>]+>", "", re.sub(r".*</head>", "", page(tmp_path / "out", name), flags=re.DOTALL))
        assert "01 A plan" in text
        assert "02" not in text.replace("2024", "")


def test_pages_link_to_each_other(tmp_path: Path) -> None:
    """Contents, previous and next refer to existing pages, and contents to headings of their page."""
    names = ["a b", "c#d", "e"]
    paths = [
        notebook(tmp_path / f"{name}.ipynb", new_markdown_cell(f"# Title {name}\n\nText.\n\n## Part {name}"))
        for name in names
    ]
    build_site(paths, tmp_path / "out", "Three")
    for place, name in enumerate(names):
        elements = Elements(page(tmp_path / "out", name))
        ids = {attributes.get("id") for _, attributes in elements.tags}
        links = [(attributes.get("rel"), attributes["href"] or "") for attributes in elements.of("a")]
        for _, target in links:
            assert target[1:] in ids if target[0] == "#" else (tmp_path / "out" / unquote(target)).is_file()
        around = {rel: unquote(target) for rel, target in links if rel}
        wanted = {"prev": place - 1, "next": place + 1}
        assert around == {rel: f"{names[at]}.html" for rel, at in wanted.items() if at in range(3)}
        assert f"Part {name}" in elements.texts


def test_hostile_text_is_escaped(tmp_path: Path) -> None:
    """File names, headings and contents of views never become markup, and only the page's own script runs."""
    name = EVIL.replace("/", "_")
    cells = (new_markdown_cell("# `" + EVIL + "`"), view(EVIL))
    path = notebook(tmp_path / f"{name}.ipynb", *cells)
    build_site([path], tmp_path / "out", EVIL)
    for file in ("index", name):
        text = page(tmp_path / "out", file)
        elements = Elements(text)
        assert not [attributes for _, attributes in elements.tags if any(key.startswith("on") for key in attributes)]
        assert {image["src"].split(":")[0] for image in elements.of("img") if image["src"]} <= {"data"}
        policy = next(meta["content"] or "" for meta in elements.of("meta") if "http-equiv" in meta)
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert len(elements.of("script")) == 2
    held = json.loads(re.findall(r'<script type="application/json">(.*?)</script>', text)[0])
    assert EVIL in json.dumps(restored(held)["recording"], ensure_ascii=False).replace('\\"', '"')


def bare(**changes: object) -> str:
    """Write a notebook with one cell and given faults."""
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "execution_count": 1, "source": "1", "outputs": []}
    whole = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
    cell |= {name: changes.pop(name) for name in set(cell) & set(changes)}
    return json.dumps(whole | changes)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", '{"nbformat": 4}', "\xff", "[" * 100_000, "3", "null", '"x"', bare(nbformat="4"),
     bare(nbformat=[]), bare(nbformat=99), bare(nbformat=3), bare(cells=3), bare(cells=[3]), bare(cells=[[]]),
     bare(cells=None), bare(cells={"a": 1}), bare(outputs=3), bare(outputs=[3]), bare(outputs=[None]),
     bare(outputs=[{"output_type": "display_data", "data": 3, "metadata": {}}]), bare(outputs={"a": 1}),
     bare(metadata=3), bare(metadata=None), bare(source=3), bare(source=[[3]]), bare(cell_type=3)],
)  # fmt: skip
def test_an_invalid_notebook_raises_an_error_before_anything_is_written(tmp_path: Path, text: str) -> None:
    good = notebook(tmp_path / "good.ipynb", new_markdown_cell("# Good"))
    (tmp_path / "bad.ipynb").write_text(text, encoding="latin-1")
    with pytest.raises(FileError, match="the file is not a notebook"):
        build_site([good, tmp_path / "bad.ipynb"], tmp_path / "out", "Two")
    assert not (tmp_path / "out").exists()


WIDGET, STATE = "application/vnd.jupyter.widget-view+json", "application/vnd.jupyter.widget-state+json"
WIDGETS = [
    {STATE: {}}, {STATE: None}, {STATE: {"abc": {"model_name": "IntSlider"}}}, {STATE: {"state": {}}}, {STATE: 3},
    {}, None, 3, [], "x", {"other": {}}, {STATE: []}, {STATE: {"state": None}}, {STATE: {"state": {"a": 3}}},
]  # fmt: skip


@pytest.mark.parametrize("widgets", WIDGETS, ids=repr)
def test_widget_state_in_any_form_is_omitted(tmp_path: Path, widgets: object) -> None:
    """Pages show no widgets, so unusual forms of widget state cause no error."""
    data = {WIDGET: {"model_id": "abc", "version_major": 2, "version_minor": 0}, "text/plain": "in its place"}
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    whole = json.loads(bare(outputs=[output]))
    whole["metadata"]["widgets"] = widgets
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(whole))
    build_site([path], tmp_path, "One")
    assert "in its place" in page(tmp_path, "a")
    assert main(["strip", str(path)]) == 0
    nbformat.validate(json.loads(path.read_text()))


PIXEL = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAAC")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Create a folder with images to embed, and files that must not be in a page, each of which contains SECRET."""
    folder = tmp_path / "book"
    (folder / ".git").mkdir(parents=True)
    (folder / "sub").mkdir()
    for path in ("a b.gif", "sub/b.gif", "c.png"):
        (folder / path).write_bytes(PIXEL)
    for path in (".env", ".env.png", ".git/x.png", "notes.txt", "../out.png", "../secret.txt", "no_ending"):
        (folder / path).write_text("SECRET")
    for name, target in {
        "inside.gif": "sub/b.gif", "out.png": "../out.png", "far.png": "../secret.txt", "env.png": ".env.png",
        "git.png": ".git/x.png", "text.png": "notes.txt", "zero.png": "/dev/zero", "self.png": "self.png",
        "gone.png": "absent", "up": "..", "etc.png": "/etc/passwd",
    }.items():  # fmt: skip
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe.png")
    with (folder / "huge.png").open("wb") as file:
        file.truncate(1 << 40)
    return folder


def page_of(folder: Path, *cells: object) -> tuple[Elements, str]:
    """Return the elements and the text of the page of some cells."""
    build_site([notebook(folder / "x.ipynb", *cells)], folder / "out", "One")
    text = page(folder / "out", "x")
    return Elements(text), text


@pytest.mark.parametrize("written", ["![x](<{}>)", '<img src="{}" alt="x">', '<p><img src="{}"></p>'])
@pytest.mark.parametrize("source", ["a b.gif", "a%20b.gif", "sub/b.gif", "./c.png", "sub/../c.png", "inside.gif"])
def test_visible_images_in_the_folder_are_embedded(images: Path, source: str, written: str) -> None:
    elements, _ = page_of(images, new_markdown_cell(written.format(source)))
    (image,) = elements.of("img")
    kind = "png" if "png" in source else "gif"
    assert image["src"] == f"data:image/{kind};base64,{base64.b64encode(PIXEL).decode()}"


@pytest.mark.parametrize(
    "source",
    [".env", ".env.png", ".git/x.png", "notes.txt", "no_ending", "../out.png", "../secret.txt", "out.png", "far.png",
     "env.png", "git.png", "text.png", "zero.png", "self.png", "gone.png", "up/out.png", "etc.png", "/etc/passwd",
     "pipe.png", "huge.png", "sub", ".", "absent.png", "%2e%2e/out.png", "sub/%2e%2e/%2e%2e/out.png", "%00.png",
     "\\\\server/x.png", "file:///etc/passwd", "http://127.0.0.1:1/x.png", "//127.0.0.1:1/x.png", "n" * 5000,
     "http://[", "attachment:none", "attachment:", "attachment:empty", "attachment:odd", "data:text/html,x",
     "javascript:alert(1)", "data:image/png;base64,\"onerror=x", "~/.ssh/id", "/dev/stdin", "\u202e.png"],
)  # fmt: skip
def test_other_images_become_a_message_in_the_page(images: Path, source: str) -> None:
    """Test links to outside, hidden files, devices, pipes, folders, other types, and sizes; the rest of the page is
    unaffected."""
    cell = new_markdown_cell(f"before ![x](<{source}>) ![y](sub/b.gif) after")
    cell.attachments = {"empty": {}, "odd": {"text/html": "<b>"}}
    outputs = [new_output("display_data", data={"text/html": f"<img src='{source}'>"})]
    elements, text = page_of(images, cell, new_code_cell("1", outputs=outputs))
    said = "".join(elements.texts)
    assert len(re.findall("image '.*?' is not shown: .", said)) == 2
    assert "before" in said
    assert "after" in said
    assert len(elements.of("img")) == 1
    assert base64.b64encode(b"SECRET").decode().rstrip("=")[:-1] not in text
    assert "SECRET" not in text
    assert str(images) not in said


def test_the_total_size_of_images_in_a_page_is_limited(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean_body, "MAX_IMAGE_BYTES", 2 * len(PIXEL))
    elements, _ = page_of(images, new_markdown_cell("![x](c.png) ![x](c.png) ![x](sub/b.gif)"))
    assert len(elements.of("img")) == 2
    assert "at most 60 bytes in total" in "".join(elements.texts)


# fmt: off
# fmt: on


@pytest.mark.parametrize("markup", LEADING)
def test_pages_contain_no_element_that_loads_or_redirects(tmp_path: Path, markup: str) -> None:
    """No element in Markdown or outputs of a notebook may load, run, send or redirect."""
    attack = [new_markdown_cell(f"text\n\n{markup}"), new_markdown_cell(f"in {markup} line")]
    forms = ("text/html", "text/markdown", "image/svg+xml", "text/latex", "text/vnd.mermaid", "text/plain")
    outputs = [new_output("display_data", data={mime: markup, "text/plain": "t"}) for mime in forms]
    outputs.append(
        new_output("display_data", data={"image/png": "AAAA"}, metadata={"image/png": {"width": "1 onload=x"}})
    )
    outputs.append(new_output("display_data", data={"application/javascript": "location = '//x'"}))
    raw = nbformat.v4.new_raw_cell(markup, metadata={"raw_mimetype": "text/html"})
    elements, text = page_of(tmp_path, *attack, new_code_cell("1", outputs=outputs), raw)
    own = [("meta", {"charset"}), ("meta", {"http-equiv", "content"}), ("meta", {"name", "content"})]
    assert [(tag, attributes.keys()) for tag, attributes in elements.tags if tag == "meta"] == [*own, own[-1]]
    allowed = clean_body._TAGS | {"html", "head", "meta", "title", "style", "body", "main", "article", "nav"}
    assert {tag for tag, _ in elements.tags} <= allowed
    names = {name for _, attributes in elements.tags for name in attributes}
    assert names.isdisjoint({"action", "ping", "target", "srcset", "background", "poster", "autofocus", "formaction"})
    assert not [name for name in names if name.startswith("on")]
    assert all((image["src"] or "").startswith("data:image/") for image in elements.of("img"))
    assert not [a for a in elements.of("a") if re.match(r"\s*(java|data|vb)", a.get("href") or "")]
    assert not re.search(r'<(p|td|div|table)[^>]* style="[^"]*(url|fixed)', text)


PATTERNS = [
    "[", "![", "[a](", "![](", "[[]", "<", "<!--", "<a ", "*a ", "**a", "_a ", "`", "``` ", "$", "$$", "\\\\[", "\\\\(",
    "\\begin{a}", "> ", "- ", "~~", "|a", "&", "<div>", "<b>", "<ul><li>", "<table><tr><td>", "<svg", "](",
    "<b id=1><i>",
    "<p>", "</div>", "<img src=a>", "\t", "1. ", "[a]: b\n", "<a><div>",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_hostile_prose_takes_limited_time(tmp_path: Path, pattern: str) -> None:
    """10,000 characters of unclosed constructs take a second or less in Markdown and in outputs."""
    long = pattern * (10_000 // len(pattern))
    outputs = [new_output("display_data", data={"text/html": long}), new_output("stream", text=long)]
    begin = time.process_time()
    page_of(tmp_path, new_markdown_cell(long), new_code_cell("1", outputs=outputs))
    assert time.process_time() - begin < 2.5


def packed(text: str) -> dict[str, str]:
    return {"gzip": base64.b64encode(gzip.compress(text.encode())).decode()}


@pytest.mark.parametrize(
    "data",
    [
        {}, {"gzip": 1}, {"gzip": "!"}, {"gzip": "AAAA"}, packed("{"), packed("[]"), packed("{}"),
        packed("[" * 100_000), packed('{"options": []}'),
        packed('{"options": {"height": "1px;background:url(//example.org)"}}'), {"gzip": packed("{}")["gzip"][:8]},
    ],
)  # fmt: skip
def test_a_damaged_view_is_reported(tmp_path: Path, data: object) -> None:
    """The error names the notebook."""
    output = new_output("display_data", data={MIME: data})
    path = notebook(tmp_path / "a.ipynb", new_code_cell("x", outputs=[output]))
    with pytest.raises(FileError, match=r"a\.ipynb: this is (no|not a) stored view"):
        build_site([path], tmp_path / "out", "One")


def test_a_view_that_unpacks_without_limit_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_views, "_MAX_UNPACKED", 1000)
    with pytest.raises(ValueError, match="more than 1,000 bytes"):
        restored(packed(" " * 10**6))


def test_two_pages_with_one_name_raise_an_error(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    paths = [notebook(tmp_path / where, new_markdown_cell("# A")) for where in ("a.ipynb", "other/a.ipynb")]
    with pytest.raises(FileError, match=r"the page a\.html already belongs to .*a\.ipynb"):
        build_site(paths, tmp_path / "out", "Two")
    with pytest.raises(FileError, match="the index"):
        build_site([notebook(tmp_path / "index.ipynb", new_markdown_cell("# A"))], tmp_path / "out", "One")
    assert not (tmp_path / "out").exists()


def test_without_nbconvert_the_error_contains_the_pip_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nbconvert", None)
    with pytest.raises(ExplorerError, match=r"explorer-graphs\[lab\]"):
        build_site([notebook(tmp_path / "a.ipynb", new_markdown_cell("# A"))], tmp_path / "out", "One")


def test_other_outputs_are_kept(tmp_path: Path) -> None:
    """Printed text, tables, images and errors are shown as saved; a view without a picture is reported."""
    data = view()["outputs"][0]["data"]
    outputs: Sequence[nbformat.NotebookNode] = (
        new_output("stream", text="printed <b>\x1b[31mred\x1b[0m"),
        new_output("display_data", data={"text/html": "<table><tr><td>cell</td></tr></table>"}),
        new_output("error", ename="ValueError", evalue="wrong", traceback=["wrong <i>"]),
        new_output("display_data", data={MIME: data[MIME], "text/plain": data["text/plain"]}),
    )
    path = notebook(tmp_path / "a.ipynb", new_code_cell("1 <2", outputs=list(outputs)))
    (chapter,) = build_site([path], tmp_path, "One")
    elements = Elements(page(tmp_path, "a"))
    text = "".join(elements.texts)
    for part in ("printed <b>red", "cell", "wrong <i>", "which needs JavaScript", data["text/plain"].splitlines()[0]):
        assert part in text
    assert not {"b", "i"} & {tag for tag, _ in elements.tags}
    assert [div["data-mime-type"] for div in elements.of("div") if "stderr" in (div.get("data-mime-type") or "")]
    assert (chapter.title, chapter.summary, chapter.views) == ("a", "", 1)


@pytest.mark.spec("V-21")
def test_the_command_writes_a_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`explorer site NOTEBOOK…` writes pages and an index to site/; it is a command even if a folder has its name."""
    monkeypatch.chdir(tmp_path)
    notebook(tmp_path / "a.ipynb", new_markdown_cell("# A"), view())
    notebook(tmp_path / "b.ipynb", new_markdown_cell("# B"))
    for _ in range(2):
        assert main(["site", "a.ipynb", "b.ipynb", "--title", "Mine"]) == 0
    said = capsys.readouterr()
    assert "wrote 4 pages with 1 view; open site/index.html in a browser" in said.out
    assert "b.ipynb contains no view" in said.err
    assert sorted(path.name for path in Path("site").iterdir()) == ["a.html", "b.html", "glossary.html", "index.html"]
    assert "<title>Mine</title>" in page(Path("site"), "index")
    assert "Trace" not in page(Path("site"), "b")
