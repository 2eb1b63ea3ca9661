"""Exercises of the notebooks, a module for each notebook."""

from explorer.course.chapters import expressions, fusion

__all__ = ["expressions", "fusion"]
