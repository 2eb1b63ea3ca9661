"""``explorer site``: notebooks as static pages whose views step."""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli.support.terminal import report, say

HELP = "write notebooks as static pages that step without a kernel"
DESCRIPTION = """\
Write notebooks as static pages: prose, code and outputs as they were saved, and each view as a player that steps. The
pages open from disk and load nothing; an index, a table of contents, and links to the previous and next page are made.
Images that notebooks name are in the pages if they are visible files below the notebook's folder, of at most 32 MB a
page in all; a message replaces any other image, and markup that could load, run or lead elsewhere is left out.

No cell is run: save the notebooks with their outputs first. With "ex.outputs.views = False" they hold no views.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("notebooks", metavar="NOTEBOOK", type=Path, nargs="+", help="a notebook: x.ipynb, in order")
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", type=Path, default=Path("site"), help="where to write (default: site)"
    )
    parser.add_argument("--title", default="Notebooks", help="title of the index")


def execute(options: argparse.Namespace) -> int:
    """Write the pages."""
    from explorer.site.build import build_site

    chapters = build_site(options.notebooks, options.output, options.title)
    for chapter in chapters:
        if not chapter.views:
            report(f"{chapter.name}.ipynb holds no view: its outputs were not saved, or explore nothing")
    views, pages = sum(chapter.views for chapter in chapters), len(chapters) + 2
    index = options.output / "index.html"
    say(f"wrote {pages} pages with {views} view{'s' * (views != 1)}; open {index} in a browser")
    return 0
