"""Operators of PNNX files that slide windows over images: convolutions, poolings, patches."""

from explorer.formats.pnnx.operators.windows import conv, fold_unfold, pooling

__all__ = ["conv", "fold_unfold", "pooling"]
