"""All operations; importing this package enters every family into the registry."""

from explorer.ops import (
    arithmetic,
    conv,
    elementwise,
    indexing,
    linalg,
    loss,
    movement,
    norm,
    pool,
    reduce,
    structured,
)

__all__ = [
    "arithmetic",
    "conv",
    "elementwise",
    "indexing",
    "linalg",
    "loss",
    "movement",
    "norm",
    "pool",
    "reduce",
    "structured",
]
