"""Operator types of ONNX files, registered on import except for rarely used domains."""

from explorer.formats.onnx.operators import (
    activation,
    control,
    elementwise,
    linalg,
    losses,
    non_max_suppression,
    normalization,
    quantized,
    reduce,
    reshape,
    resize,
    rnn,
    sampling,
    scatter,
    sequences,
    slicing,
    sorting,
    training,
    windows,
)
from explorer.formats.onnx.operators.base import delegated
from explorer.formats.onnx.operators.base.table import TABLE

__all__ = [
    "TABLE",
    "activation",
    "control",
    "delegated",
    "elementwise",
    "linalg",
    "losses",
    "non_max_suppression",
    "normalization",
    "quantized",
    "reduce",
    "reshape",
    "resize",
    "rnn",
    "sampling",
    "scatter",
    "sequences",
    "slicing",
    "sorting",
    "training",
    "windows",
]
