"""Builders of the operator types of ONNX files; importing this package fills the table."""

from explorer.formats.onnx.operators import (
    activation,
    control,
    conv,
    delegated,
    elementwise,
    linalg,
    losses,
    machine_learning,
    normalization,
    pooling,
    quantized,
    reduce,
    reshape,
    resize,
    rnn,
    slicing,
    sorting,
)
from explorer.formats.onnx.operators.table import TABLE

__all__ = [
    "TABLE",
    "activation",
    "control",
    "conv",
    "delegated",
    "elementwise",
    "linalg",
    "losses",
    "machine_learning",
    "normalization",
    "pooling",
    "quantized",
    "reduce",
    "reshape",
    "resize",
    "rnn",
    "slicing",
    "sorting",
]
