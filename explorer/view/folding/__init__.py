"""Folding of large graphs: repeated and parallel parts become boxes."""
