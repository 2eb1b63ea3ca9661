"""All operations; importing this package enters every family into the registry."""

from explorer.ops import (
    arithmetic,
    conv,
    elementwise,
    indexing,
    joining,
    linalg,
    loss,
    movement,
    norm,
    parts,
    pool,
    reduce,
    structured,
)

__all__ = [
    "arithmetic",
    "conv",
    "elementwise",
    "indexing",
    "joining",
    "linalg",
    "loss",
    "movement",
    "norm",
    "parts",
    "pool",
    "reduce",
    "structured",
]
