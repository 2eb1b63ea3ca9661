"""``explorer diff``: the differences between two models or two recordings of plans."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.cli.support.output import check_output, extension_error
from explorer.cli.support.terminal import print_note, print_text
from explorer.core.errors import FileError
from explorer.core.files.atomic_write import write_file
from explorer.record import Recording
from explorer.record.reasons import bytes_text

if TYPE_CHECKING:
    from explorer.net import Net

HELP = "list the differences between two models or recordings"
DESCRIPTION = """\
List the differences between two models: operators as before, changed, added, removed, and operators that became others,
such as a Conv and a BatchNormalization that became a Conv; counts, and weights with different values. Operators are
matched by names and structure. If the operators are the same, or with --nodes, also list the recorded nodes, decisions
and kernels of the plans that differ.

A and B are model files, or recordings from "explorer show -o x.json". Keep a recording next to the tests of a model,
and a lost fusion fails them. A recording contains no weights. The exit status is 1 if anything differs.

The extension of the output selects its form:
  .html  a page with both graphs side by side, which step together; it opens from disk      .txt  text
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("before", metavar="A", type=Path, help="a model file, or a recording: x.json")
    parser.add_argument("after", metavar="B", type=Path, help="another model file or recording")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="write the comparison to x.html or x.txt")
    parser.add_argument("--nodes", action="store_true", help="also list recorded nodes, decisions and kernels")
    parser.add_argument("--theme", choices=("auto", "light", "dark"), default="auto", help="colours of the page")
    parser.add_argument("--no-weights", action="store_true", help="compare only graphs and plans, and read no weights")


def execute(options: argparse.Namespace) -> int:
    """Print or write the comparison."""
    from explorer.net import Net
    from explorer.reports import compare
    from explorer.view.compare.comparison_html import page_html

    output: Path | None = options.output
    if output is not None:
        if output.suffix.lower() not in (".html", ".txt"):
            raise extension_error(output, ".html or .txt", ".html")
        check_output(output, (options.before, options.after))
    before, after = _read(options.before), _read(options.after)
    try:
        compared: Any
        if isinstance(before, Net):
            compared = before.diff(after, weights=not options.no_weights)
        else:
            compared = compare(before, after.preview_plan() if isinstance(after, Net) else after)
    except FileError as error:
        raise FileError(
            error.given.removeprefix(f"{error.path}: "), path=error.path, rule=error.rule,
            fix=f"{error.fix}; or compare only the graphs with --no-weights",
        ) from error  # fmt: skip
    text, equal = compared.text(nodes=options.nodes), compared.equal
    if output is None:
        print_text(text)
    else:
        write_file(output, page_html(compared, theme=options.theme) if output.suffix.lower() == ".html" else text)
        print_note(
            f"wrote {output} ({bytes_text(output.stat().st_size)}): {'no difference' if equal else 'differences'}"
        )
    return 0 if equal else 1


def _read(path: Path) -> Net | Recording:
    """Return the model or the recording in a file."""
    from explorer.formats import open
    from explorer.formats.recording_file import stored_recording

    recording = stored_recording(path)
    if recording is not None:
        return recording
    try:
        return open(path)
    except FileError as error:
        if path.suffix.lower() != ".json":
            raise
        raise FileError(
            error.given.removeprefix(f"{error.path}: "),
            path=str(path),
            rule=f"a .json file must contain a net or a recording; {error.rule}",
            fix=f"write a recording with: explorer show FILE -o {path.name}",
        ) from error
