"""Functions that run scheduled kernels."""
