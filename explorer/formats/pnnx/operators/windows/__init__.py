"""PNNX operators with sliding windows: convolution, pooling, unfolding, and padding."""

from explorer.formats.pnnx.operators.windows import conv, fold_unfold, padding, pooling

__all__ = ["conv", "fold_unfold", "padding", "pooling"]
