"""``explorer run``: a model's outputs for arrays."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from explorer.cli.output import refuse_inputs, report, write
from explorer.core.errors import FileError
from explorer.view.visible import visible

HELP = "run a model on arrays"
DESCRIPTION = """\
Run a model on the arrays of a .npz or .npy file and write its outputs, by name, to a .npz file.

Arrays are found by the names of the model's inputs; with as many arrays as inputs they are taken in order. A file with
more arrays names those that are meant: --input digits.npz:images
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a model's file: x.pnnx.param")
    parser.add_argument(
        "--input", metavar="IN[:KEY]", action="append", required=True, help="a .npz or .npy file; may be given again"
    )
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="a .npz file for the outputs")
    parser.add_argument(
        "--top", metavar="K", type=_positive, help="print the K largest elements of each row, with their places"
    )
    parser.add_argument("--plan", action="store_true", help="print the plan: every decision, every kernel")


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 1 or more")
    return int(text)


def execute(options: argparse.Namespace) -> int:
    """Run and write."""
    from explorer.cli.arrays import file_of, inputs, npz
    from explorer.formats import open

    output: Path | None = options.output
    if output is not None:
        if output.suffix != ".npz":
            raise FileError(
                f"the ending {output.suffix!r}", path=str(output), rule="outputs are written to a .npz file"
            )
        refuse_inputs(output, [options.file, *map(file_of, options.input)])
    net = open(options.file)
    given = inputs(net, options.input)
    found = net.run(given)
    results = found if isinstance(found, dict) else {next(iter(net.outputs)): found}
    if options.plan:
        from explorer.view.text import text

        sys.stdout.write(text(net.plan({name: tuple(array.shape) for name, array in given.items()}).recording))
    for name, array in results.items():
        print(f"{visible(name)}: {array.dtype.name} {array.shape}{_range(array)}")
        if options.top:
            _print_top(array, options.top)
    if output is not None:
        write(output, npz(results))
        report(f"wrote {output}")
    return 0


def _range(array: Any) -> str:
    return f", {array.min():.6g} to {array.max():.6g}" if array.size and array.dtype.kind in "fiu" else ""


def _print_top(array: Any, count: int) -> None:
    rows = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
    for number, row in enumerate(rows):
        largest = (
            (-row).argsort(kind="stable")[:count]
            if row.dtype.kind in "fi"
            else row.argsort(kind="stable")[::-1][:count]
        )
        print(f"  {number}: " + "  ".join(f"{place} {row[place]:.4g}" for place in largest))
