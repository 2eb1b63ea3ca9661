"""``explorer diff``: what differs between two models, or between two recordings of plans."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from explorer.core.errors import FileError
from explorer.record import Recording, loads

HELP = "tell what differs between two models, or two recordings"
DESCRIPTION = """\
Tell what differs between two models and their plans: operators that were added, removed or changed, counts, decisions
that only one plan takes, and kernels that compute the same in another way. Operators are matched by structure.

A and B are model files, or recordings that "explorer show -o x.json" wrote: keep one of a model beside its tests, and a
lost fusion fails them. The exit status is 1 where anything differs.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("before", metavar="A", type=Path, help="a model's file, or a recording: x.json")
    parser.add_argument("after", metavar="B", type=Path, help="another one")


def execute(options: argparse.Namespace) -> int:
    """Print the comparison."""
    from explorer.view.compared import Compared

    found = Compared.of(_recording(options.before), _recording(options.after))
    sys.stdout.write(found.text())
    return 0 if found.equal else 1


def _recording(path: Path) -> Recording:
    """The plan of a model's file, or what a file records."""
    if path.suffix.lower() != ".json":
        from explorer.formats import open

        return open(path).look().recording
    try:
        return loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileError(
            str(error),
            path=str(path),
            rule="a .json file is a recording",
            fix=f"write one with: explorer show FILE -o {path.name}",
        ) from error
