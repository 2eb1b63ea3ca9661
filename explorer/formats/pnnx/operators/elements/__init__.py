"""Operators of PNNX files that compute each element by itself, or make tensors of given elements."""

from explorer.formats.pnnx.operators.elements import (
    activation,
    creation,
    elementwise,
    expression,
    fake_quantize,
    special,
)

__all__ = ["activation", "creation", "elementwise", "expression", "fake_quantize", "special"]
