"""``explorer show``: a model's graph and plan as a page, an image, text or data."""

from __future__ import annotations

import argparse
import webbrowser
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli.support import image_inputs, memory_option, opened_model, runtime_option
from explorer.cli.support.file_argument import GRAPHS, WEIGHTS, refuse_for_recording
from explorer.cli.support.output import check_output, stem
from explorer.cli.support.terminal import print_line, print_note, print_text
from explorer.core.errors import ExplorerError, OperandError
from explorer.record import Recording
from explorer.record.escape import visible
from explorer.record.listings import without_source
from explorer.record.reasons import bytes_text

if TYPE_CHECKING:
    from explorer.net import Net

HELP = "show a model's graph and how it is planned"
DESCRIPTION = """\
Show a model's graph and how it is planned: what was merged, fused or declined, and why.

The extension of the output selects its form:
  .html  a page to step through, which opens from disk (default: FILE.explorer.html in this folder)
  .svg, .png, .pdf  a picture            .txt  the decisions as text      .json  the recording
  .dot, .mmd, .graphml  the graph for Graphviz, Mermaid and other programs
  .c  the code of its kernels, with --kernels native

Operators that cannot run are drawn, too. A page has statistics and first elements of the smallest weights, up to 16
million elements.
"""

_LISTED = 4
"""maximum number of listed operators that cannot run"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help=f"a model file: {GRAPHS}; a file with weights only: {WEIGHTS}; or a recording: x.json",
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="the file to write; - writes text to standard output")
    parser.add_argument("--open", action="store_true", help="open the output in the browser")
    image_inputs.declare_input(parser, "runs the model, and also shows values and times")
    parser.add_argument(
        "--theme", choices=("auto", "light", "dark"), default="auto", help="colours of pages and pictures"
    )
    parser.add_argument(
        "--direction",
        choices=("down", "right"),
        default="down",
        help="direction in which values flow in pages and pictures",
    )
    parser.add_argument(
        "--depth", metavar="N", type=depth, help="open boxes down to this depth in pages and pictures; 0 opens none"
    )
    parser.add_argument("--stage", metavar="NAME", help="show the result of a stage, such as fuse, instead of the end")
    parser.add_argument(
        "--width",
        metavar="CM",
        type=width,
        help="width of a picture for a paper, such as 8.5, on which text has at least 6 pt",
    )
    parser.add_argument(
        "--edge-types", action="store_true", help="write the types of values next to the edges of a picture"
    )
    parser.add_argument("--no-source", action="store_true", help="omit the source lines of the model file")
    parser.add_argument("--weights", action="store_true", help="show the values of all weights, also of large ones")
    opened_model.arguments(parser)
    runtime_option.arguments(parser)
    memory_option.arguments(parser)
    image_inputs.arguments(parser)


def depth(text: str) -> int:
    """Return the depth to which boxes are open; argparse prints the error for invalid text."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r}: the depth must be an integer of at least 0, such as 1")
    return int(text)


def width(text: str) -> float:
    """Return the width of a picture in cm; argparse prints the error for invalid text."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < inf:
        raise argparse.ArgumentTypeError(f"{text!r}: the width must be a positive number of cm, such as 8.5")
    return value


def execute(options: argparse.Namespace) -> int:
    """Write a model or recording as a page, an image, text or a recording."""
    memory_option.grant(options)
    from explorer.formats.common.declared_weights import AbsentWeights
    from explorer.formats.recording_file import stored_recording
    from explorer.save_view import check_extension

    output = Path(options.output or f"{stem(options.file)}.explorer.html")
    if options.output != "-":
        check_extension(output)
        from explorer.cli.support.array_files import file_of

        check_output(output, [options.file, *map(file_of, options.input)])
    recording = stored_recording(options.file)
    if recording is not None:
        refuse_for_recording(options, "show", "input", "shape", "signature", "weights", "kernels")
        return _write(recording, output, options, [])
    kernels = runtime_option.kernels_of(options)
    net = opened_model.opened(options)
    weights = net.definition.weights
    if options.input:
        from explorer.cli.support.array_files import inputs

        arrays = inputs(net, options)
        if options.runtime:
            recording = net.recorded_by(options.runtime, arrays)
        else:
            recording = net.plan(arrays, record="values", kernels=kernels).eval().recording
    elif options.runtime:
        raise OperandError(
            f"--with {options.runtime} without --input",
            rule="a model must have inputs to be run",
            fix=f"--with {options.runtime} --input x.npz",
        )
    else:
        image_inputs.refuse_options(options)
        from explorer.run.diagnosis.leaf_values import leaf_values, small_leaf_values

        plan = net.preview_plan(kernels=kernels)
        recording = plan.recording
        if options.weights:
            recording.leaf_values = leaf_values(plan.planned)
        elif output.suffix.lower() == ".html" and options.output != "-" and not isinstance(weights, AbsentWeights):
            try:
                recording.leaf_values = small_leaf_values(plan.planned)
            except (ExplorerError, OSError) as error:
                print_note(f"no values of weights: {error}")
    if isinstance(weights, AbsentWeights):
        print_note(f"cannot run: {str(weights.error()).splitlines()[0]}")
    return _write(recording, output, options, _cannot_run(net), len(net.definition.operators))


def _cannot_run(net: Net) -> list[str]:
    """Return a line for each unknown type, and for the first other operator that cannot run."""
    unknown = net.unknown()
    types = {each.type for each in unknown}
    misfits = [error for name, error in net.problems().items() if net[name].type not in types]
    lines = [*map(str, unknown), *[visible(error.given) for error in misfits[:_LISTED]]]
    more = len(misfits) - _LISTED
    return [*lines, f"{more:,} more; explorer check lists all"] if more > 0 else lines


def _write(
    recording: Recording, output: Path, options: argparse.Namespace, problems: Sequence[str], operators: int = 0
) -> int:
    """Write a recording in the format of the output's extension; print problems and the graph's size."""
    from explorer.save_view import save
    from explorer.view.export.writers import ViewState
    from explorer.view.replay.steps import stage_start

    if options.no_source:
        recording = without_source(recording)
    if options.output == "-":
        from explorer.view.export.text import text

        print_text(text(recording))
        return 0
    shown = {name: getattr(options, name) for name in ("theme", "direction", "depth", "edge_types", "width")}
    if options.stage is not None:
        shown |= {"stage": options.stage, "step": stage_start(recording, options.stage)}
    save(recording, output, ViewState(**shown))
    for problem in problems:
        print_note(f"cannot run: {problem}")
    print_line(_summary(output, recording, operators))
    if options.open and not webbrowser.open(output.resolve().as_uri()):
        print_note(f"found no browser to open {output} with")
    return 0


def _summary(output: Path, recording: Recording, operators: int) -> str:
    """Return a line with the output file and the size of the graph."""
    counts = [
        f"{count:,} {noun}{'s' * (count != 1)}"
        for noun, count in (
            *[("operator", operators)] * (operators > 0),
            ("node", recording.stages[0].counts["nodes"]),
            ("kernel", len(recording.schedule.kernels) if recording.schedule else 0),
        )
    ]
    advice = "; open it in a browser" if output.suffix.lower() == ".html" else ""
    return f"wrote {output} ({bytes_text(output.stat().st_size)}): {recording.title}, {', '.join(counts)}{advice}"
