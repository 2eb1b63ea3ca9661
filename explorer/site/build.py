"""Site builder, which writes chapters, an index and a glossary as self-contained HTML files.

All notebooks are read before any page is written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape, unescape
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote, urlsplit

from explorer.core.errors import FileError
from explorer.core.files.atomic_write import write_file
from explorer.record.glossary import GLOSSARY
from explorer.site.chapter import Chapter, read_chapter
from explorer.view.base.markup import Markup, element
from explorer.view.base.palette import page_colours
from explorer.view.export.html_page import content_policy
from explorer.view.payload.script_bundle import script, stylesheet

_STATIC = Path(__file__).parent / "static"
_INDEX, _TERMS = "index", "glossary"
_HREF = re.compile(r'(<a\b[^>]*\bhref=")([^"]*)"')


def build_site(notebooks: Sequence[Path], folder: Path, title: str) -> list[Chapter]:
    """Write a page for each notebook, in order, an index and a glossary; return the chapters.

    Before writing anything, raise FileError if a file is not a notebook, or if two have the same name.
    """
    paths: dict[str, Path] = {}
    for path in notebooks:
        owner = path.stem if path.stem in (_INDEX, _TERMS) else paths.get(path.stem)
        if owner is not None:
            raise FileError(
                f"the page {path.stem}.html already belongs to {f'the {owner}' if isinstance(owner, str) else owner}",
                path=str(path), rule="notebooks of a site must have unique names other than index and glossary",
                fix="rename one of them",
            )  # fmt: skip
        paths[path.stem] = path
    chapters = [read_chapter(path) for path in paths.values()]
    pages = {chapter.name: _chapter_page(chapter, chapters, title) for chapter in chapters}
    pages[_INDEX], pages[_TERMS] = _index_page(chapters, title), _glossary_page(title)
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in pages.items():
        write_file(folder / f"{name}.html", page)
    return chapters


def _chapter_page(chapter: Chapter, chapters: Sequence[Chapter], title: str) -> str:
    """Return the page of a chapter, with the front end if the chapter has views."""
    index = chapters.index(chapter)
    neighbours = [
        ("previous", chapters[index - 1] if index else None),
        ("next", chapters[index + 1] if index + 1 < len(chapters) else None),
    ]
    links = [
        element(
            "a", element("span", kind), *_numbered(other), href=_address(other), rel=kind[:4], class_=f"book-{kind}"
        )
        for kind, other in neighbours
        if other is not None
    ]
    main = element(
        "main",
        element("article", _relinked(chapter.body, chapters)),
        element("nav", *links, class_="book-around", aria_label="previous and next chapter") if links else Markup(""),
    )
    code = script() + _read("site.js") if chapter.views else ""
    return _page(f"{chapter.title} · {title}", element("div", _contents(chapter, chapters, title), main), code)


def _index_page(chapters: Sequence[Chapter], title: str) -> str:
    """Return the page that lists all chapters."""
    rows = [
        element(
            "li",
            element("a", *_numbered(chapter), href=_address(chapter)),
            element("p", chapter.summary),
            element("p", chapter.goal, class_="book-goal") if chapter.goal else Markup(""),
        )
        for chapter in chapters
    ]
    terms = element("p", element("a", "Terms of the planner", href=f"{_TERMS}.html"))
    main = element("main", element("h1", title), element("ol", *rows, class_="book-chapters"), terms)
    return _page(title, element("div", main, class_="book-index"), "")


def _glossary_page(title: str) -> str:
    """Return the page of terms, to which chapters link."""
    rows = [
        part
        for term, text in GLOSSARY.items()
        for part in (element("dt", term, id=term.replace(" ", "-")), element("dd", f"{text}."))
    ]
    home = element("p", element("a", title, href=f"{_INDEX}.html"))
    main = element("main", element("h1", "Terms of the planner"), home, element("dl", *rows))
    return _page(f"Terms · {title}", element("div", main, class_="book-index"), "")


def _relinked(body: Markup, chapters: Sequence[Chapter]) -> Markup:
    """Return the body with links to notebooks, the course list and the glossary replaced by links to pages."""
    targets = {f"{chapter.name}.ipynb": _address(chapter) for chapter in chapters}
    targets |= {"glossary.md": f"{_TERMS}.html", "course.md": f"{_INDEX}.html"}

    def relinked(match: re.Match[str]) -> str:
        parts = urlsplit(unescape(match[2]))
        target = None if parts.scheme or parts.netloc else targets.get(PurePosixPath(unquote(parts.path)).name)
        if target is None:
            return match[0]
        part = f"#{parts.fragment}" if parts.fragment and not target.startswith(_INDEX) else ""
        return f'{match[1]}{escape(target + part)}"'

    return Markup(_HREF.sub(relinked, body))


def _contents(chapter: Chapter, chapters: Sequence[Chapter], title: str) -> Markup:
    """Return the list of chapters, with the headings of this chapter."""
    rows = []
    for other in chapters:
        is_here = other is chapter
        link = element("a", *_numbered(other), href=_address(other), aria_current="page" if is_here else None)
        headings = [
            element("li", element("a", heading.text, href=f"#{heading.id}"), class_=f"book-level-{heading.level}")
            for heading in other.headings
        ]
        inside = element("ol", *headings) if is_here and headings else Markup("")
        rows.append(element("li", link, inside))
    listed = element("details", element("summary", "contents"), element("ol", *rows), open="")
    home = element("a", title, href=f"{_INDEX}.html", class_="book-home")
    return element("nav", home, listed, class_="book-contents", aria_label="contents")


def _numbered(chapter: Chapter) -> list[Markup | str]:
    """Return a chapter's number, if it has one, and title."""
    return [element("b", chapter.number), " ", chapter.title] if chapter.number else [chapter.title]


def _address(chapter: Chapter) -> str:
    return quote(f"{chapter.name}.html")


def _page(title: str, inside: Markup, code: str) -> str:
    style = page_colours(":root") + _read("site.css") + _read("figures.css") + (stylesheet() if code else "")
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{content_policy(code)}">'),
        Markup('<meta name="viewport" content="width=device-width,initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        element("title", title),
        Markup(f"<style>{style}</style>"),
    )
    parts = [inside, Markup(f'<script type="module">{code}</script>')] if code else [inside]
    return "<!doctype html>\n" + element("html", head, element("body", *parts), lang="en")


def _read(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")
