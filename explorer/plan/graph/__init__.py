"""The graph that all passes work on, with its decisions, its kernels and the cost model."""
