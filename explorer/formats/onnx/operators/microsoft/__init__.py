"""Operators of the domain com.microsoft, which ONNX Runtime's optimizers write in place of several of the standard.

The onnx package has no schemas of that domain: inputs are found by their positions.
"""

from explorer.formats.onnx.operators.microsoft import (
    attention,
    buffered_attention,
    fused_layers,
    group_query_attention,
    quantized_arithmetic,
)

__all__ = ["attention", "buffered_attention", "fused_layers", "group_query_attention", "quantized_arithmetic"]
