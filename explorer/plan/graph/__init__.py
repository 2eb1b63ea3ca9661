"""The graph that all passes work on, the decisions taken on it, and the cost model."""
