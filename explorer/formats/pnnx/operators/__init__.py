"""What the operators of PNNX files mean; importing this package fills the table."""

from explorer.formats.pnnx.operators import aten, expressions, functional, modules, recurrent, tensors
from explorer.formats.pnnx.operators.table import TABLE, file_operator, layer_types

__all__ = [
    "TABLE",
    "aten",
    "expressions",
    "file_operator",
    "functional",
    "layer_types",
    "modules",
    "recurrent",
    "tensors",
]
