"""Elementwise operations with NumPy's broadcasting."""
