"""Builders of the operator types of ONNX files; importing this package fills the table."""

from explorer.formats.onnx.operators import (
    activation,
    control,
    elementwise,
    linalg,
    losses,
    machine_learning,
    microsoft,
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
    "machine_learning",
    "microsoft",
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
    "windows",
]
