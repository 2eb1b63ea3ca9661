"""Building of a site: all notebooks are read before any page is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from explorer.core.errors import FileError
from explorer.core.files.atomic_write import write_file
from explorer.site.chapter import Chapter, read_chapter
from explorer.site.pages import INDEX, TERMS, chapter_page, glossary_page, index_page


def build_site(notebooks: Sequence[Path], folder: Path, title: str) -> list[Chapter]:
    """Write a page for each notebook, in this order, and an index; return the chapters.

    Raises FileError, before anything is written, for files that are no notebooks, and for two of one name.
    """
    paths: dict[str, Path] = {}
    for path in notebooks:
        taken = path.stem if path.stem in (INDEX, TERMS) else paths.get(path.stem)
        if taken is not None:
            raise FileError(
                f"the page {path.stem}.html is {f'the {taken}' if isinstance(taken, str) else f'that of {taken}'}",
                path=str(path), rule="notebooks of a site must have names of their own, other than index and glossary",
                fix="rename one of them",
            )  # fmt: skip
        paths[path.stem] = path
    chapters = [read_chapter(path) for path in paths.values()]
    pages = {chapter.name: chapter_page(chapter, chapters, title) for chapter in chapters}
    pages[INDEX], pages[TERMS] = index_page(chapters, title), glossary_page(title)
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in pages.items():
        write_file(folder / f"{name}.html", page)
    return chapters
