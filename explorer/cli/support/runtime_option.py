"""The options ``--with``, the runtime that runs a model instead of Explorer, and ``--kernels``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from explorer.core.errors import OperandError

if TYPE_CHECKING:
    from explorer.core.ir.explore_options import Kernels


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options ``--with`` and ``--kernels``."""
    parser.add_argument(
        "--kernels",
        choices=("numpy", "native"),
        help="native compiles elementwise kernels with a C compiler; numpy (default) runs all kernels in NumPy",
    )
    parser.add_argument(
        "--with",
        metavar="RUNTIME",
        dest="runtime",
        type=_runtime,
        help="run the model with another runtime, which reads the file itself: onnxruntime, litert, onnx.reference",
    )


def kernels_of(options: argparse.Namespace) -> Kernels:
    """Return the value of ``--kernels``; raise OperandError if ``--with`` is given, too."""
    if options.kernels and options.runtime:
        raise OperandError(
            f"--kernels {options.kernels} with --with {options.runtime}",
            rule="only Explorer compiles kernels: the runtime has its kernels already",
            fix="remove one of the two options",
        )
    return options.kernels or "numpy"


def _runtime(text: str) -> str:
    from explorer.runtimes import RUNTIMES

    if text not in RUNTIMES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a runtime; there are {', '.join(RUNTIMES)}")
    return text
