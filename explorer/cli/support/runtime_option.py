"""The option ``--with``: the runtime that runs a model instead of Explorer."""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--with",
        metavar="RUNTIME",
        dest="runtime",
        type=_runtime,
        help="run the model with another runtime, which reads the file itself: onnxruntime, litert, onnx.reference",
    )


def _runtime(text: str) -> str:
    from explorer.runtimes import RUNTIMES

    if text not in RUNTIMES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a runtime; there are {', '.join(RUNTIMES)}")
    return text
