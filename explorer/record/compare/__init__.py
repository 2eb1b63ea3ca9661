"""Comparison of two recordings by matching nodes, decisions and kernels."""
