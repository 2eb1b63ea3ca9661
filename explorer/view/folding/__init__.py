"""Folding of large graphs, which turns repeated and parallel parts into boxes."""
