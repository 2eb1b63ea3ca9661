"""Exercises of the notebooks, a module for each notebook."""

from explorer.course.chapters import batching, expressions, fusion, gradients, layers, models

__all__ = ["batching", "expressions", "fusion", "gradients", "layers", "models"]
