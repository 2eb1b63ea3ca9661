"""The graph that all passes work on, the decisions taken on it, the kernels that it falls into, and the cost model."""
