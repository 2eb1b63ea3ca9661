"""``explorer show``: a model's graph and plan as a page, a picture, text or data."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from explorer.cli.support import image_inputs, memory_option
from explorer.cli.support.output import refuse_inputs, stem
from explorer.cli.support.terminal import report, say, tell
from explorer.core.errors import FileError
from explorer.core.files.atomic_write import write_file
from explorer.record import Recording
from explorer.record.reasons import bytes_text

HELP = "show a model's graph and how it is planned"
DESCRIPTION = """\
Show a model's graph and how it is planned: what was merged, fused, declined and why.

The ending of the output chooses its form:
  .html  a page to step through; it opens from disk (the default, FILE.explorer.html in this folder)
  .svg   a picture      .dot  for Graphviz      .txt  the decisions as text      .json  the recording

Operators that cannot run are drawn too. Weights are only read when inputs are given.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a model's file: x.pnnx.param")
    parser.add_argument("-o", "--output", metavar="OUT", help="where to write, - for text to standard output")
    parser.add_argument(
        "--input",
        metavar="IN[:KEY]",
        action="append",
        default=[],
        help="run the model on a .npz or .npy file, or a picture, and show values and times too",
    )
    parser.add_argument("--theme", choices=("auto", "light", "dark"), default="auto", help="colours of .html and .svg")
    memory_option.arguments(parser)
    image_inputs.arguments(parser)


def _html(recording: Recording, theme: str) -> str:
    from explorer.view.export.html_page import html

    return html(recording, theme=theme)


def _svg(recording: Recording, theme: str) -> str:
    from explorer.view.picture.svg import svg

    return svg(recording, theme=theme)


def _dot(recording: Recording, theme: str) -> str:
    from explorer.view.export.dot import to_graphviz

    return str(to_graphviz(recording).source)


def _text(recording: Recording, theme: str) -> str:
    from explorer.view.export.text import text

    return text(recording)


def _json(recording: Recording, theme: str) -> str:
    from explorer.record import to_json

    return json.dumps(to_json(recording), ensure_ascii=False, separators=(",", ":")) + "\n"


WRITERS: Mapping[str, Callable[[Recording, str], str]] = {
    ".html": _html,
    ".svg": _svg,
    ".dot": _dot,
    ".txt": _text,
    ".json": _json,
}


def execute(options: argparse.Namespace) -> int:
    """Write the view of a model."""
    memory_option.grant(options)
    from explorer.formats import open

    output = Path(options.output or f"{stem(options.file)}.explorer.html")
    if options.output != "-":
        if output.suffix.lower() not in WRITERS:
            raise FileError(
                f"the ending {output.suffix!r}" if output.suffix else "a name without an ending",
                path=str(output),
                rule=f"the output must end in one of {', '.join(WRITERS)}",
                fix=f"-o {output.stem}.html",
            )
        from explorer.cli.support.array_files import file_of

        refuse_inputs(output, [options.file, *map(file_of, options.input)])
    net = open(options.file)
    if options.input:
        from explorer.cli.support.array_files import inputs

        recording = net.plan(inputs(net, options), record="values").eval().recording
    else:
        recording = net.preview_plan().recording
    if options.output == "-":
        tell(_text(recording, options.theme))
        return 0
    write_file(output, WRITERS[output.suffix.lower()](recording, options.theme))
    for unknown in net.unknown():
        report(f"cannot run: {unknown}")
    say(_summary(output, recording, len(net.definition.operators)))
    return 0


def _summary(output: Path, recording: Recording, operators: int) -> str:
    """Return a line with the output file and the size of the graph."""
    counts = [
        f"{count:,} {noun}{'s' * (count != 1)}"
        for noun, count in (
            ("operator", operators),
            ("node", recording.stages[0].counts["nodes"]),
            ("kernel", len(recording.schedule.kernels) if recording.schedule else 0),
        )
    ]
    fate = "; open it in a browser" if output.suffix.lower() == ".html" else ""
    return f"wrote {output} ({bytes_text(output.stat().st_size)}): {recording.title}, {', '.join(counts)}{fate}"
