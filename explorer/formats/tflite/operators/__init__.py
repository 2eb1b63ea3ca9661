"""Builders of the operator types of TensorFlow Lite files. Importing this package fills the table of operators."""

from explorer.formats.tflite.operators import (
    activation,
    control,
    elementwise,
    linalg,
    quantize,
    reduce,
    reshape,
    resize,
    slicing,
    windows,
)
from explorer.formats.tflite.operators.table import TABLE

__all__ = [
    "TABLE",
    "activation",
    "control",
    "elementwise",
    "linalg",
    "quantize",
    "reduce",
    "reshape",
    "resize",
    "slicing",
    "windows",
]
