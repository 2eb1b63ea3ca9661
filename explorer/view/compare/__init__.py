"""Comparisons of two recordings: widget, page and text."""
