"""``explorer strip``: remove widgets and run-specific data from notebooks, which then show images."""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli.support.terminal import print_line

HELP = "remove widget state and run-specific data from notebooks, so that their pictures are shown"
DESCRIPTION = """\
Remove from notebooks the state of widgets that have a picture, and data that differ from run to run.

A saved notebook refers to its widgets, which end with the kernel. nbconvert then shows nothing, and JupyterLab without
this package's extension shows an error. Without the reference, both show the picture. Also removed are the times of
cells and the empty outputs of progress bars, so that version control shows only changes of cells and outputs. The
kernel and its version stay, because JupyterLab writes them back. Notebooks are changed in place, after all of them have
been read. With --check nothing is changed; use it in CI and pre-commit.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", metavar="NOTEBOOK", type=Path, nargs="+", help="a notebook: x.ipynb")
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 if there is something to remove")


def execute(options: argparse.Namespace) -> int:
    """Strip the notebooks, or list those that need stripping."""
    from explorer.cli.support.notebook_strip import strip_files

    changed = strip_files(options.files, write=not options.check)
    for path in changed:
        print_line(f"{path}: {'is not stripped' if options.check else 'stripped'}")
    return int(options.check and bool(changed))
