"""Layers that are included in explorer."""
