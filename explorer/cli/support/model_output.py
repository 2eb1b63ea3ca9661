"""The model file that a command writes, and the line that describes a model."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli.support.output import check_output
from explorer.cli.support.terminal import print_line
from explorer.record.reasons import counted_text

if TYPE_CHECKING:
    from explorer.net import Net
    from explorer.net.definition.definition import BlobDefinition

_LISTED = 4
"""maximum number of listed names"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the output."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        type=Path,
        required=True,
        help="the file to write: y.onnx, y.json, y.pnnx.param",
    )


def write(net: Net, output: Path, read: Sequence[Path]) -> int:
    """Write a net, open it as a check, and print its operators, inputs and outputs; return the exit status.

    Raise FileError if the output or its weights file would replace one of the files ``read``.
    """
    from explorer.formats import open, save
    from explorer.formats.registry import format_of

    check_output(output, read)
    save(net, output)
    written = open(output)
    entry = format_of(output.name)
    has_weights = any(operator.weights for operator in written.definition.operators)
    weights = entry.weights_extension if entry is not None and has_weights else ""
    files = f"{output} with {output.with_suffix(weights)}" if weights else str(output)
    count = counted_text(len(written.definition.operators), "operator")
    print_line(f"{files}: {count} of {written.definition.dialect}, {flow_text(written)}")
    return 0


def flow_text(net: Net) -> str:
    """Return a net's inputs and outputs with their declared shapes: ``x batch×64 → y batch×10``."""
    return f"{_ends(net.inputs) or 'no input'} → {_ends(net.outputs)}"


def first_names(names: Sequence[str]) -> str:
    """Return the first names, and the number of omitted names, as a string."""
    return ", ".join(names[:_LISTED]) + f" and {len(names) - _LISTED:,} more" * (len(names) > _LISTED)


def _ends(operands: Mapping[str, BlobDefinition]) -> str:
    from explorer.net.definition.declared_types import symbolic_text

    return first_names(
        [f"{name} {symbolic_text(blob.shape)}" if blob.shape is not None else name for name, blob in operands.items()]
    )
