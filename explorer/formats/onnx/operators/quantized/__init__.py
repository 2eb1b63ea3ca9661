"""Quantised tensors (integers with a scale and a zero point), and narrow floating-point numbers and integers."""

from explorer.formats.onnx.operators.quantized import integer_arithmetic, narrow_elements

__all__ = ["integer_arithmetic", "narrow_elements"]
