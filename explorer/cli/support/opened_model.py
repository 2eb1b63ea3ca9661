"""Options for opening a model: the signature of the graph, and the input shapes that are assumed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from explorer.cli.support import shape_option

if TYPE_CHECKING:
    from explorer.net import Net


def declare_signature(parser: argparse.ArgumentParser) -> None:
    """Declare the option for a file with several graphs."""
    parser.add_argument(
        "--signature", metavar="KEY", help="of a .tflite file, the signature whose graph to open (default: the first)"
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    shape_option.arguments(parser)
    declare_signature(parser)


def opened(options: argparse.Namespace) -> Net:
    """Open the file, and assume the given shapes; raise an error for a shape that does not fit its input."""
    from explorer.formats import open

    return open(options.file, signature=options.signature).assume(dict(options.shape))
