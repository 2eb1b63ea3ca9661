"""Operators of the domain com.microsoft, which ONNX Runtime's optimizers write in place of several of the standard."""

from explorer.formats.onnx.operators.microsoft import (
    attention,
    fused_layers,
    group_query_attention,
    quantized_arithmetic,
    shared_buffers,
)

__all__ = ["attention", "fused_layers", "group_query_attention", "quantized_arithmetic", "shared_buffers"]
