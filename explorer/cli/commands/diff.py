"""``explorer diff``: the differences between two models, or between two recordings of plans."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from explorer.cli.support.output import check_output, ending_error
from explorer.cli.support.terminal import report, tell
from explorer.core.errors import FileError
from explorer.core.files.atomic_write import write_file
from explorer.record import Recording
from explorer.record.reasons import bytes_text

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
    from explorer.cli.support.weight_diff import compare_weights
    from explorer.view.compare.comparison_html import page_html
    from explorer.view.compare.comparison_view import Compared

    output: Path | None = options.output
    if output is not None:
        if output.suffix.lower() not in (".html", ".txt"):
            raise ending_error(output, ".html or .txt", ".html")
        check_output(output, (options.before, options.after))
    recording, nodes = _read(options.before)
    other, others = _read(options.after)
    compared = Compared.of(recording, other)
    text, equal = compared.text(), compared.equal
    if nodes and others and not options.no_weights:
        try:
            weights = compare_weights(compared, nodes, others)
        except FileError as error:
            raise FileError(
                error.given.removeprefix(f"{error.path}: "), path=error.path, rule=error.rule,
                fix=f"{error.fix}; or compare the graphs alone with --no-weights",
            ) from error  # fmt: skip
        text, equal = text + weights.text, equal and not weights.differ
    if output is None:
        tell(text)
    else:
        write_file(output, page_html(compared, theme=options.theme) if output.suffix.lower() == ".html" else text)
        report(f"wrote {output} ({bytes_text(output.stat().st_size)}): {'no difference' if equal else 'differences'}")
    return 0 if equal else 1


def _read(path: Path) -> tuple[Recording, Sequence[Any]]:
    """Return a model's plan with the expressions of its nodes, or the recording in a file, without expressions."""
    from explorer.formats import open
    from explorer.formats.recording_file import stored_recording
    from explorer.run.recording.recorder import expressions

    recording = stored_recording(path)
    if recording is not None:
        return recording, ()
    try:
        plan = open(path).preview_plan()
    except FileError as error:
        if path.suffix.lower() != ".json":
            raise
        raise FileError(
            error.given.removeprefix(f"{error.path}: "),
            path=str(path),
            rule=f"a .json file must hold a net or a recording; {error.rule}",
            fix=f"write a recording with: explorer show FILE -o {path.name}",
        ) from error
    return plan.recording, expressions(plan.planned)
