"""Quantised tensors, whole numbers with a scale and a zero point, and elements of 8 and 4 bits."""

from explorer.formats.onnx.operators.quantized import integer_arithmetic, narrow_elements

__all__ = ["integer_arithmetic", "narrow_elements"]
