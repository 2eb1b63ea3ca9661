"""Compiled kernels: C code of a plan, built by the machine's C compiler, and run on NumPy's arrays."""
