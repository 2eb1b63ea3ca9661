"""Ordered kernels: their operations, their blocks, and the lifetimes of their results."""
