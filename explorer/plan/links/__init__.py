"""The simplifying links, most specific first: importing this package makes the chain."""

from explorer.plan.links import stable, stable_gradients, structured, inverse, members, identity, weights  # noqa: I001  # the order of the chain

__all__ = ["identity", "inverse", "members", "quotient", "stable", "stable_gradients", "structured", "weights"]
