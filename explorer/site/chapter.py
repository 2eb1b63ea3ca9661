"""Chapters of a site, read from notebooks: nbconvert converts cells to HTML, and stored views are added."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from explorer.core.errors import ExplorerError, FileError
from explorer.core.files.open_untrusted import content
from explorer.site.clean_body import clean_body
from explorer.site.figure import view_figure
from explorer.view.base.markup import Markup, element
from explorer.view.export.html_page import image
from explorer.view.payload.stored import MIME

if TYPE_CHECKING:
    from nbconvert import HTMLExporter
    from nbformat import NotebookNode


_MAX_FORMULAS = 100
"""maximum number of formulas in a cell, not counting those between dollars; in cells with more, formulas are not
parsed"""


class Heading(NamedTuple):
    """Heading of a chapter, with the id for links."""

    level: int
    id: str
    text: str


@dataclass(frozen=True)
class Chapter:
    """One notebook of a site."""

    name: str
    """name of its page without ``.html``, which is the notebook's name"""
    number: str
    """number at the beginning of the name, such as ``01`` for ``01_plan``; empty if the title begins with a number"""
    title: str
    """first heading, or the name of the page if there is no heading"""
    summary: str
    """text of the first paragraph"""
    goal: str
    """text of the paragraph before any code that begins with "Goal:"; "" if there is none"""
    headings: tuple[Heading, ...]
    body: Markup
    views: int
    """number of interactive views"""


def read_chapter(path: Path) -> Chapter:
    """Read a notebook with its saved outputs, without running a cell.

    Raise FileError if it is not a notebook, and ExplorerError if nbconvert is not installed.
    """
    notebook = _notebook(path)
    marker = secrets.token_hex(16)
    try:
        figures = _extract_views(notebook, marker)
    except ValueError as error:
        raise FileError(
            str(error), path=str(path), rule="a stored view must be unmodified",
            fix="run the notebook again, and save it",
        ) from error  # fmt: skip
    body = clean_body(_html(notebook, path), path.parent, figures, marker)
    outline = _Outline()
    outline.feed(body)
    titles = [heading.text for heading in outline.headings if heading.level == 1]
    title = titles[0] if titles else path.stem
    number = re.match(r"[0-9]{1,3}(?=[_ -])", path.stem)
    return Chapter(
        name=path.stem,
        number=number[0] if number and not title[:1].isdigit() else "",
        title=title,
        summary=outline.summary,
        goal=outline.goal,
        headings=tuple(heading for heading in outline.headings if heading.id and heading.level in (2, 3)),
        body=Markup(body),
        views=len(figures),
    )


def _notebook(path: Path) -> NotebookNode:
    try:
        import nbconvert  # noqa: F401 - imported to check that it works
        import nbformat
    except ImportError:
        raise ExplorerError(
            "nbconvert is not installed", rule="explorer site needs nbconvert, which is installed with JupyterLab",
            fix='python -m pip install "explorer-graphs[lab]"',
        ) from None  # fmt: skip
    data = content(path)
    try:
        notebook: NotebookNode = nbformat.reads(  # type: ignore[no-untyped-call]  # nbformat declares no types
            data.decode("utf-8"), as_version=4
        )
        nbformat.validate(notebook)
    except MemoryError:
        raise
    except Exception as error:  # nbformat raises any exception for wrong values
        raise FileError(
            "the file is not a notebook",
            path=str(path),
            rule="a notebook must be JSON in Jupyter's format",
            fix="open it in JupyterLab and save it, which converts older formats",
        ) from error
    notebook.metadata.pop("widgets", None)  # pages show no widgets, and nbconvert fails for some
    return notebook


def _extract_views(notebook: NotebookNode, marker: str) -> list[Markup]:
    """Replace each output that contains a view by a marker with an index; return the views' figures.

    Elsewhere, SVG elements are replaced by images, which cannot load or run anything.
    """
    figures: list[Markup] = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if MIME in data:
                output["data"] = {"text/html": f"{marker}{len(figures)}-"}
                figures.append(_figure(len(figures) + 1, data))
            elif "data" in output:
                data.setdefault("text/plain", "")  # in case no other type can be shown
                if "text/html" in data:
                    data["text/html"] = _with_images(data["text/html"])
    return figures


def _with_images(html: str) -> str:
    parts, end = [], 0
    while (begin := html.find("<svg", end)) >= 0 and (close := html.find("</svg>", begin)) >= 0:
        svg, before = html[begin : close + 6], html[end:begin]
        label = re.match(r'<svg[^>]{0,1000}\saria-label="([^"]*)"', svg)
        parts += [before, image(svg, unescape(label[1]) if label else "an image without a description")]
        end = close + 6
    return "".join([*parts, html[end:]])


def _figure(number: int, data: Mapping[str, Any]) -> Markup:
    """Return a view's figure, with an image that is shown until the view is drawn."""
    plain = data.get("text/plain", "")
    if "image/svg+xml" in data:
        picture = image(data["image/svg+xml"], "the graph as an image; its decisions are below as text")
    else:
        picture = element("p", "An interactive view, which needs JavaScript; its decisions are below as text.")
    lines = [Markup(f"{element('span', line)}\n") for line in plain.splitlines()]
    return view_figure(number, data[MIME], picture, element("pre", *lines) if lines else Markup(""))


def _html(notebook: NotebookNode, path: Path) -> str:
    """Return the cells as nbconvert's HTML."""
    try:
        html: str = _exporter().from_notebook_node(notebook)[0]
    except MemoryError:
        raise
    except Exception as error:  # nbconvert raises any exception for wrong values
        raise FileError(
            f"nbconvert cannot convert it: {type(error).__name__}: {error}",
            path=str(path),
            rule="nbconvert must be able to convert the notebook",
            fix=f"jupyter nbconvert --to html {path.name} shows where it fails",
        ) from error
    return html.encode("utf-8", "replace").decode()  # JSON may contain lone surrogates, which UTF-8 cannot encode


@cache
def _exporter() -> HTMLExporter:
    """Return the exporter of all chapters, which compiles its templates only once."""
    from jinja2 import pass_context
    from mistune import BlockParser, InlineParser
    from nbconvert import HTMLExporter
    from nbconvert.filters.markdown_mistune import InvalidNotebook, IPythonRenderer, MarkdownWithMath
    from traitlets.config import Config

    class Renderer(IPythonRenderer):
        """Markdown renderer that leaves missing attachments to ``clean_body``, which reports them."""

        def image(self, text: str, url: str, title: str | None = None) -> str:
            try:
                return str(super().image(text, url, title))
            except (InvalidNotebook, StopIteration):
                self.attachments = {**self.attachments, url.removeprefix("attachment:"): {"": ""}}
                return str(super().image(text, url, title))

    @pass_context
    def markdown(context: Any, source: str) -> str:
        attachments = context.get("cell", {}).get("attachments", {})
        renderer = Renderer(escape=False, anchor_link_text="¶", attachments=attachments)
        # The patterns search to the end of the cell for each opening delimiter, which may be slow.
        if sum(map(source.count, ("\\\\[", "\\\\(", "\\begin{"))) > _MAX_FORMULAS:
            return str(MarkdownWithMath(renderer, BlockParser(), InlineParser()).render(source))
        return str(MarkdownWithMath(renderer).render(source))

    shown = ("text/html", "text/markdown", "image/svg+xml", "text/latex", "image/png", "image/jpeg", "text/plain")
    return HTMLExporter(  # type: ignore[no-untyped-call]  # nbconvert declares no types
        template_name="lab",
        template_file="base.html.j2",
        filters={"markdown2html": markdown, "strip_files_prefix": lambda source: source},
        config=Config(
            HTMLExporter={"exclude_input_prompt": True, "exclude_output_prompt": True},
            NbConvertBase={"display_data_priority": list(shown)},
        ),
    )


class _Outline(HTMLParser):
    """Parser that collects a page's headings, without anchor links, and the summary and goal before any code."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[Heading] = []
        self.summary = ""
        self.goal = ""
        self._open: tuple[str, str] | None = None
        self._parts: list[str] = []
        self._is_anchor = False
        self._has_code = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Start a heading, or a paragraph before any code."""
        values = dict(attrs)
        self._has_code = self._has_code or "jp-CodeCell" in (values.get("class") or "")
        is_before = tag == "p" and not self._has_code
        if self._open is None and (tag in ("h1", "h2", "h3") or is_before):
            self._open, self._parts = (tag, values.get("id") or ""), []
        self._is_anchor = tag == "a" and values.get("class") == "anchor-link"

    def handle_data(self, data: str) -> None:
        """Append text to the open element."""
        if not self._is_anchor:
            self._parts.append(data)

    def handle_endtag(self, tag: str) -> None:
        """Close the open element, and store its text."""
        self._is_anchor = False
        if self._open is None or tag != self._open[0]:
            return
        text = " ".join("".join(self._parts).split())
        if tag == "p":
            self.summary = self.summary or text
            self.goal = text if text.startswith("Goal:") else self.goal
        else:
            self.headings.append(Heading(int(tag[1]), self._open[1], text))
        self._open = None
