"""``explorer convert``: write a model file in another format."""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli.support import file_argument, model_output
from explorer.cli.support.output import check_output

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
    from explorer.formats import open

    inputs = [options.file] if options.weights is None else [options.file, options.weights]
    check_output(options.target, inputs)
    return model_output.write(open(options.file, weights=options.weights), options.target, inputs)
