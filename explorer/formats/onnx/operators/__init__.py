"""What the operators of ONNX files mean; importing this package fills the table."""

from explorer.formats.onnx.operators import (
    activations,
    convolution,
    elementwise,
    normalization,
    ordering,
    parts,
    pooling,
    products,
    recurrent,
    reductions,
    resizing,
    shapes,
)
from explorer.formats.onnx.operators.table import TABLE

__all__ = [
    "TABLE",
    "activations",
    "convolution",
    "elementwise",
    "normalization",
    "ordering",
    "parts",
    "pooling",
    "products",
    "recurrent",
    "reductions",
    "resizing",
    "shapes",
]
