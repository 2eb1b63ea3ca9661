"""Operators of the domain com.microsoft, with which ONNX Runtime's optimizers replace several standard operators.

The onnx package has no schemas for this domain, so inputs are identified by position.
"""

from explorer.formats.onnx.operators.microsoft import (
    attention,
    buffered_attention,
    fused_layers,
    group_query_attention,
    quantized_arithmetic,
)

__all__ = ["attention", "buffered_attention", "fused_layers", "group_query_attention", "quantized_arithmetic"]
