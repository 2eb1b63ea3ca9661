"""``explorer compile``: what other compilers do with a model, as a page, text or a recording."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from explorer.cli.support import compiler_option, image_inputs, opened_model
from explorer.cli.support.file_argument import GRAPHS
from explorer.cli.support.output import check_output, stem
from explorer.cli.support.terminal import print_line, print_note, print_text
from explorer.record import Recording
from explorer.record.reasons import bytes_text, counted_text

HELP = "show what other compilers do with a model"
DESCRIPTION = """\
Show what other compilers do with a model, pass by pass: what they fuse, what they decline and why, and times. The file
is a model, which onnxruntime compiles, or a variable of a Python file: a torch module or function for Inductor or
onnxruntime, or a function that jax.jit returned for XLA. The Python file is run.

  explorer compile model.onnx --with onnxruntime --input x.npz -o story.html
  explorer compile model.py:net --args inputs --with inductor,onnxruntime

The extension of the output selects its form: .html, .txt, .json (a recording), or one of a picture. With several
compilers, there is a file for each, such as story.inductor.html. "explorer diff" compares two recordings.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", type=Path, help=f"a model file: {GRAPHS}; or a variable: x.py:f")
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="the file to write (default: FILE.html); - writes text to standard output"
    )
    parser.add_argument("--open", action="store_true", help="open the output in the browser")
    parser.add_argument("--theme", choices=("auto", "light", "dark"), default="auto", help="colours of pages")
    parser.add_argument("--no-run", action="store_true", help="compile only, and measure no times")
    compiler_option.arguments(parser, several=True)
    opened_model.arguments(parser)
    image_inputs.declare_input(parser, "without inputs, the model is not run, and FILE or --shape sets all lengths")
    image_inputs.arguments(parser)


def execute(options: argparse.Namespace) -> int:
    """Write a file for each compiler."""
    from explorer.save_view import check_extension

    named = Path(options.output or f"{stem(options.file).replace(':', '.')}.html")
    outputs = dict.fromkeys(options.compilers, named)
    if len(outputs) > 1 or not options.output:
        outputs = {name: named.with_suffix(f".{name}{named.suffix}") for name in options.compilers}
    if options.output == "-":
        outputs = {}
    for output in outputs.values():
        check_extension(output)
        check_output(output, [options.file] if options.file.exists() else [])
    for name, recording in compiler_option.recordings(options, run=not options.no_run).items():
        if options.output == "-":
            from explorer.view.export.text import text

            print_text(text(recording))
        else:
            _write(recording, outputs[name], options)
    return 0


def _write(recording: Recording, output: Path, options: argparse.Namespace) -> None:
    from explorer.save_view import save
    from explorer.view.export.writers import ViewState

    save(recording, output, ViewState(theme=options.theme))
    applied = sum(decision.verdict == "applied" for decision in recording.decisions)
    counts = [
        counted_text(recording.stages[0].counts["operations"], "operation"),
        *([counted_text(len(recording.schedule.kernels), "kernel")] if recording.schedule else []),
        f"{applied:,} applied",
        f"{len(recording.decisions) - applied:,} declined",
    ]
    advice = "; open it in a browser" if output.suffix.lower() == ".html" else ""
    print_line(f"wrote {output} ({bytes_text(output.stat().st_size)}): {recording.title}, {', '.join(counts)}{advice}")
    if options.open and not webbrowser.open(output.resolve().as_uri()):
        print_note(f"found no browser to open {output} with")
