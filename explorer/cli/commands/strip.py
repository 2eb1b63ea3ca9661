"""``explorer strip``: remove widget state and run-specific data from notebooks, so that pictures are always shown."""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli.support.terminal import say

HELP = "remove the widget state of notebooks, so that their pictures are shown, and what differs from run to run"
DESCRIPTION = """\
Remove from notebooks the widget state where a picture stands beside it, and what differs from run to run.

A saved notebook keeps a reference to its widgets, which are gone with the kernel: nbconvert then shows nothing, and
JupyterLab without this package's extension an error. Without the reference they show the picture. Also removed are
the times of cells, the version of the interpreter, the display name of Python's kernel and the empty outputs of
progress bars, so that a version control sees changes of cells and outputs alone. Notebooks are changed in place, after
all of them were read. With --check nothing is changed, for CI and pre-commit.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", metavar="NOTEBOOK", type=Path, nargs="+", help="a notebook: x.ipynb")
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 if there is something to remove")


def execute(options: argparse.Namespace) -> int:
    """Strip the notebooks, or name the notebooks that need stripping."""
    from explorer.cli.support.notebook_strip import strip_files

    changed = strip_files(options.files, write=not options.check)
    for path in changed:
        say(f"{path}: {'is not stripped' if options.check else 'stripped'}")
    return int(options.check and bool(changed))
