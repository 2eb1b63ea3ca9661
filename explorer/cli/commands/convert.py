"""``explorer convert``: write a model file in another format."""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli.support import file_argument
from explorer.cli.support.output import check_output
from explorer.cli.support.terminal import say

HELP = "write a model's file in another format"
DESCRIPTION = """\
Write a model's file in another format, which the ending of the target chooses, with its weights:
  explorer convert model.pnnx.param model.onnx   any net whose operations ONNX has
  explorer convert model.onnx model.json         any net, explorer's own format: model.json with model.npz
The file is opened again before the command ends. Nothing is written where an operation has no counterpart.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    file_argument.arguments(parser)
    parser.add_argument("target", metavar="TARGET", type=Path, help="the file to write: y.onnx, y.json, y.pnnx.param")
    parser.add_argument("--weights", metavar="FILE", type=Path, help="the file of its weights, if not beside the graph")


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
    held = any(operator.weights for operator in written.definition.operators)
    beside = (
        f" with {options.target.with_suffix(entry.weights_ending)}" if entry and entry.weights_ending and held else ""
    )
    say(f"{options.target}{beside}: {count:,} operator{'s' * (count != 1)} of {written.definition.dialect}")
    return 0
