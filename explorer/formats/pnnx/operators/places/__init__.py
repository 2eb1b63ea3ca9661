"""Operators of PNNX files that read, write or find elements by their places."""

from explorer.formats.pnnx.operators.places import diagonals, indexing, scatter, search

__all__ = ["diagonals", "indexing", "scatter", "search"]
