"""Option that sets the memory budget of a command."""

from __future__ import annotations

import argparse

from explorer.core.memory_budget import budget, size_of


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--memory", metavar="SIZE", type=_size,
        help="maximum memory of a run, including weights, such as 8GB (default: the machine's memory)",
    )  # fmt: skip


def grant(options: argparse.Namespace) -> None:
    """Set the memory budget to the value of the option."""
    if options.memory is not None:
        budget.memory = options.memory


def _size(text: str) -> int:
    try:
        return size_of(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes, such as 8GB, 500MB or 1000000") from None
