"""Comparison of two recordings: nodes, decisions and kernels are matched."""
