"""Symbolic constants: full, zeros, one-hot vectors, literals."""
