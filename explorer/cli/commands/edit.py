"""``explorer edit``: change the shapes of a model's inputs, and names."""

from __future__ import annotations

import argparse

from explorer.cli.support import file_argument, model_output, shape_option
from explorer.core.errors import OperandError

HELP = "change the shapes of a model's inputs, and names"
DESCRIPTION = """\
Write a model with other shapes of its inputs, such as another batch size, or with other names:
  explorer edit net.onnx --shape x=8x3x224x224 --rename mask=segmentation -o net8.onnx
The shapes of all operands follow. If operators do not accept the new shape, such as a Reshape to a fixed batch size,
the first one is named, and nothing is written. --rename renames the operator and the operand with a name. Names of
inputs in --shape are the old ones. The written file is opened as a check.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    file_argument.arguments(parser, weights=False)
    shape_option.arguments(parser, "the new shape of an input; may be repeated")
    parser.add_argument(
        "--rename",
        metavar="OLD=NEW",
        action="append",
        default=[],
        type=_names,
        help="a new name of an operator or operand; may be repeated",
    )
    model_output.arguments(parser)


def _names(text: str) -> tuple[str, str]:
    old, _, new = text.partition("=")
    if not old or not new:
        raise argparse.ArgumentTypeError(f"{text!r} is not an old and a new name, such as mask=segmentation")
    return old, new


def execute(options: argparse.Namespace) -> int:
    """Write the edited model, and print a summary."""
    from explorer.formats import open

    if not options.shape and not options.rename:
        raise OperandError(
            "neither --shape nor --rename",
            rule="an edit must change something",
            fix="--shape x=8x3x224x224; explorer convert FILE OUT writes the model as it is",
        )
    net = open(options.file)
    if options.shape:
        net.resize_inputs(dict(options.shape))
    for old, new in options.rename:
        is_both = old in net and net.definition.has_blob(old)
        net.rename(old, new)
        if is_both:
            net.rename_blob(old, new)
    return model_output.write(net, options.output, [options.file])
