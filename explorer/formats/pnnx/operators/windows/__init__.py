"""Operators of PNNX files that slide windows over images: convolutions, poolings, patches, and their borders."""

from explorer.formats.pnnx.operators.windows import conv, fold_unfold, padding, pooling

__all__ = ["conv", "fold_unfold", "padding", "pooling"]
