"""``explorer convert``: write a model file in another format."""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli.support import file_argument
from explorer.cli.support.output import check_output
from explorer.cli.support.terminal import print_line

HELP = "write a model file in another format"
DESCRIPTION = """\
Write a model file and its weights in another format, which the extension of the target selects:
  explorer convert model.pnnx.param model.onnx   any net whose operations ONNX has
  explorer convert model.onnx model.json         any net, in explorer's own format: model.json and model.npz
The target is opened as a check. If the format lacks an operation, nothing is written.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    file_argument.arguments(parser)
    parser.add_argument("target", metavar="TARGET", type=Path, help="the file to write: y.onnx, y.json, y.pnnx.param")
    parser.add_argument("--weights", metavar="FILE", type=Path, help="the file of the weights, if not next to FILE")


def execute(options: argparse.Namespace) -> int:
    """Write the target, and print a summary."""
    from explorer.formats import open, save
    from explorer.formats.registry import format_of

    inputs = [options.file] if options.weights is None else [options.file, options.weights]
    check_output(options.target, inputs)
    save(open(options.file, weights=options.weights), options.target)
    written = open(options.target)
    count = len(written.definition.operators)
    entry = format_of(options.target.name)
    has_weights = any(operator.weights for operator in written.definition.operators)
    weights_file = (
        f" with {options.target.with_suffix(entry.weights_extension)}"
        if entry and entry.weights_extension and has_weights
        else ""
    )
    print_line(
        f"{options.target}{weights_file}: {count:,} operator{'s' * (count != 1)} of {written.definition.dialect}"
    )
    return 0
