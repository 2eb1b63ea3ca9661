"""Argument that names the model's file of a command."""

from __future__ import annotations

import argparse
from pathlib import Path

GRAPHS = "x.onnx, x.pnnx.param, x.tflite, x.pt2, x.json"
"""files of graphs, as a help text names them"""
WEIGHTS = "x.safetensors, x.gguf, x.npz, x.npy"
"""files of weights alone, which can be looked at, and not run"""


def arguments(parser: argparse.ArgumentParser, *, weights: bool = True, required: bool = True) -> None:
    """Declare the file; ``weights`` says whether a file of weights alone is of use to the command."""
    parser.add_argument(
        "file", metavar="FILE", type=Path, nargs=None if required else "?",
        help=f"a model's file: {GRAPHS}" + f"; or one of weights alone: {WEIGHTS}" * weights,
    )  # fmt: skip
