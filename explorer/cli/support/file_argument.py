"""The model file argument of commands."""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.core.errors import FileError

GRAPHS = "x.onnx, x.pnnx.param, x.tflite, x.pt2, x.json"
"""graph files, as listed in help texts"""
WEIGHTS = "x.safetensors, x.gguf, x.npz, x.npy"
"""files with weights only, which can be inspected but not run, as listed in help texts"""


def arguments(parser: argparse.ArgumentParser, *, weights: bool = True, required: bool = True) -> None:
    """Declare the file argument; ``weights`` is whether files with only weights are accepted."""
    parser.add_argument(
        "file", metavar="FILE", type=Path, nargs=None if required else "?",
        help=f"a model file: {GRAPHS}" + f"; or a file with weights only: {WEIGHTS}" * weights,
    )  # fmt: skip


def refuse_for_recording(options: argparse.Namespace, command: str, *names: str) -> None:
    """Raise FileError if one of the options ``names``, which need a model, is given for a recording."""
    refused = [f"--{name}" for name in names if getattr(options, name)]
    if refused:
        raise FileError(
            f"{refused[0]} for a recording",
            path=str(options.file),
            rule="options that plan or run a model must be given with a model file",
            fix=f"explorer {command} MODEL {refused[0]} …",
        )
