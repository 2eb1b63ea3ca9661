"""Layers that come with explorer."""
