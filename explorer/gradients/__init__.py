"""Gradients, recorded as expressions: nothing is computed until a plan runs."""

from explorer.gradients.backward import backward, grad
from explorer.gradients.call_gradient import call_gradient

__all__ = ["backward", "call_gradient", "grad"]
