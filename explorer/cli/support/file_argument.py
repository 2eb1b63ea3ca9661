"""The model file argument of commands."""

from __future__ import annotations

import argparse
from pathlib import Path

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
