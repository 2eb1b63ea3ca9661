"""``explorer diff``: the differences between two models, or between two recordings of plans."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli.support.output import check_output, ending_error
from explorer.cli.support.terminal import report, tell
from explorer.core.errors import FileError
from explorer.core.files.atomic_write import write_file
from explorer.record import Recording
from explorer.record.reasons import bytes_text

if TYPE_CHECKING:
    from explorer.run.evalplan import EvalPlan

HELP = "tell what differs between two models, or two recordings"
DESCRIPTION = """\
Tell what differs between two models and their plans: operators that were added, removed or changed, weights with other
values, counts, decisions that only one plan takes, and kernels that compute the same in another way. Operators are
matched by structure, whatever the files call them.

A and B are model files, or recordings that "explorer show -o x.json" wrote: keep one of a model beside its tests, and a
lost fusion fails them. A recording holds no weights. The exit status is 1 where anything differs.

The ending of the output chooses its form:
  .html  a page with both graphs side by side, which step together; it opens from disk      .txt  text
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("before", metavar="A", type=Path, help="a model's file, or a recording: x.json")
    parser.add_argument("after", metavar="B", type=Path, help="another one")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="write the comparison to x.html or x.txt")
    parser.add_argument("--theme", choices=("auto", "light", "dark"), default="auto", help="colours of .html")
    parser.add_argument("--no-weights", action="store_true", help="compare graphs and plans only; no weight is read")


def execute(options: argparse.Namespace) -> int:
    """Print or write the comparison."""
    from explorer.reports import compare
    from explorer.view.compare.comparison_html import page_html

    output: Path | None = options.output
    if output is not None:
        if output.suffix.lower() not in (".html", ".txt"):
            raise ending_error(output, ".html or .txt", ".html")
        check_output(output, (options.before, options.after))
    before, after = _read(options.before), _read(options.after)
    try:
        compared = compare(before, after, weights=not options.no_weights)
    except FileError as error:
        raise FileError(
            error.given.removeprefix(f"{error.path}: "), path=error.path, rule=error.rule,
            fix=f"{error.fix}; or compare the graphs alone with --no-weights",
        ) from error  # fmt: skip
    text, equal = compared.text(), compared.equal
    if output is None:
        tell(text)
    else:
        write_file(output, page_html(compared, theme=options.theme) if output.suffix.lower() == ".html" else text)
        report(f"wrote {output} ({bytes_text(output.stat().st_size)}): {'no difference' if equal else 'differences'}")
    return 0 if equal else 1


def _read(path: Path) -> EvalPlan | Recording:
    """Return a model's plan, or the recording in a file."""
    from explorer.formats import open
    from explorer.formats.recording_file import stored_recording

    recording = stored_recording(path)
    if recording is not None:
        return recording
    try:
        return open(path).preview_plan()
    except FileError as error:
        if path.suffix.lower() != ".json":
            raise
        raise FileError(
            error.given.removeprefix(f"{error.path}: "),
            path=str(path),
            rule=f"a .json file must hold a net or a recording; {error.rule}",
            fix=f"write a recording with: explorer show FILE -o {path.name}",
        ) from error
