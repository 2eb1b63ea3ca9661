"""``explorer cut``: write a part of a model as a file."""

from __future__ import annotations

import argparse

from explorer.cli.support import file_argument, model_output
from explorer.core.errors import OperandError

HELP = "write a part of a model as a file"
DESCRIPTION = """\
Write the part of a model that computes some operands from others, with its weights:
  explorer cut net.onnx --inputs pool_1 --outputs relu_3 -o part.onnx
Operands keep their names. Without --inputs, the part begins with the model's inputs, and without --outputs, it ends
with the model's outputs. The written file is opened as a check.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    file_argument.arguments(parser, weights=False)
    for end in ("inputs", "outputs"):
        parser.add_argument(
            f"--{end}",
            metavar="NAME",
            nargs="+",
            help=f"operands that are the {end} of the part (default: the model's)",
        )
    model_output.arguments(parser)


def execute(options: argparse.Namespace) -> int:
    """Write the part, and print a summary."""
    from explorer.formats import open

    if not options.inputs and not options.outputs:
        raise OperandError(
            "neither --inputs nor --outputs",
            rule="a part must begin or end at a named operand",
            fix="--outputs relu_3; explorer convert FILE OUT writes the whole model",
        )
    net = open(options.file)
    return model_output.write(net.cut(options.inputs, options.outputs), options.output, [options.file])
