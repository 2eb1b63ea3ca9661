"""Ordered kernels: what each computes, in which blocks, and how long its result lives."""
