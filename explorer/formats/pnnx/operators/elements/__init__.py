"""PNNX operators that compute each element independently, or create tensors."""

from explorer.formats.pnnx.operators.elements import (
    activation,
    creation,
    elementwise,
    expression,
    fake_quantize,
    special,
)

__all__ = ["activation", "creation", "elementwise", "expression", "fake_quantize", "special"]
