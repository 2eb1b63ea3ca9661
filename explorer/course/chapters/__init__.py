"""Exercises of the notebooks, a module for each notebook."""

from explorer.course.chapters import (
    batching,
    classifier,
    data_types,
    expressions,
    fusion,
    gradients,
    layers,
    memory,
    models,
    nets,
    own,
    own_model,
    passes,
    training,
    workers,
)

__all__ = [
    "batching",
    "classifier",
    "data_types",
    "expressions",
    "fusion",
    "gradients",
    "layers",
    "memory",
    "models",
    "nets",
    "own",
    "own_model",
    "passes",
    "training",
    "workers",
]
