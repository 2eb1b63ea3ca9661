"""Structured constants: full, zeros, one-hot vectors and literals."""
