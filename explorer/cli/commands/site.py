"""``explorer site``: write notebooks as static pages with interactive views."""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli.support.terminal import print_line, print_note

HELP = "write notebooks as static pages with views that step without a kernel"
DESCRIPTION = """\
Write notebooks as static pages with their text, code and saved outputs, and each view as a player that steps. The
pages open from disk and load nothing. An index, a table of contents, and links to the previous and next page are added.
Images of a notebook are included if they are visible files below the notebook's folder, with at most 32 MB per page. A
message replaces any other image. Markup that could load files, run code or lead to another site is left out.

No cell is run: save the notebooks with their outputs first. With "ex.outputs.views = False" they contain no views.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "notebooks", metavar="NOTEBOOK", type=Path, nargs="+", help="notebooks in the order of the pages: x.ipynb"
    )
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", type=Path, default=Path("site"), help="the folder to write (default: site)"
    )
    parser.add_argument("--title", default="Notebooks", help="title of the index")


def execute(options: argparse.Namespace) -> int:
    """Write the pages."""
    from explorer.site.build import build_site

    chapters = build_site(options.notebooks, options.output, options.title)
    for chapter in chapters:
        if not chapter.views:
            print_note(f"{chapter.name}.ipynb contains no view: it was saved without outputs, or explores nothing")
    views, pages = sum(chapter.views for chapter in chapters), len(chapters) + 2
    index = options.output / "index.html"
    print_line(f"wrote {pages} pages with {views} view{'s' * (views != 1)}; open {index} in a browser")
    return 0
