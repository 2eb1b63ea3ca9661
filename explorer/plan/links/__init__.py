"""The simplifying links, most specific first: importing this package makes the chain."""

from explorer.plan.links import stable, structured, inverse, members, identity  # noqa: I001  # the order of the chain
from explorer.plan.links import pieces, declared, strength, weights, norms, placement, rescaled, policies

__all__ = [
    "declared",
    "identity",
    "inverse",
    "members",
    "norms",
    "pieces",
    "placement",
    "policies",
    "rescaled",
    "stable",
    "strength",
    "structured",
    "weights",
]
