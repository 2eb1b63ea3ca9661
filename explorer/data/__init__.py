"""Containers of values."""
