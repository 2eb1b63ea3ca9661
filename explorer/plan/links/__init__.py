"""The simplifying links, most specific first: importing this package makes the chain."""

from explorer.plan.links import stable, stable_gradients, cancelled, structured, inverse, members, identity  # noqa: I001  # the order of the chain
from explorer.plan.links import pieces, declared, strength, weights, norms, placement, rescaled, policies

__all__ = [
    "cancelled",
    "declared",
    "identity",
    "inverse",
    "members",
    "norms",
    "pieces",
    "placement",
    "policies",
    "quotient",
    "rescaled",
    "stable",
    "stable_gradients",
    "strength",
    "structured",
    "weights",
]
