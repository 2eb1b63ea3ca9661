"""Kernels in the order in which they run: what each computes, in which blocks, and for how long its result lives."""
