"""Option for the input shapes that a command assumes."""

from __future__ import annotations

import argparse
import re

_LENGTHS = re.compile(r"[0-9]{1,18}(?:[x×,][0-9]{1,18})*")


def arguments(
    parser: argparse.ArgumentParser,
    meaning: str = "the shape of an input, instead of a default that fits; may be repeated",
) -> None:
    """Declare the option with its meaning in the help."""
    parser.add_argument(
        "--shape", metavar="NAME=1x576", action="append", default=[], type=_shape,
        help=meaning,
    )  # fmt: skip


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, lengths = text.rpartition("=")
    if not equals or not name or (lengths and not _LENGTHS.fullmatch(lengths)):
        raise argparse.ArgumentTypeError(f"{text!r} is not an input shape, such as tokens=1x576, or x= for a scalar")
    return name, tuple([int(length) for length in re.split("[x×,]", lengths) if length])
