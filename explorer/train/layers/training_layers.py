"""Layers that compute differently in training, and their interface to a training step.

In inference they are ordinary layers. In training, ``in_training`` records other expressions. They may read the step
number, and may replace the layer's statistics, which are parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import TensorType
from explorer.layers.framework.layer import Layer
from explorer.ops.base import cast
from explorer.ops.manipulation.device_copy import to_device
from explorer.train.compiled import parameter


class Part(NamedTuple):
    """Part of a batch for one worker: the samples ``first:last`` of ``whole`` samples."""

    first: int
    last: int
    whole: int


class Training:
    """Training step as layers see it: the step number (an integer scalar) and replaced statistics."""

    def __init__(self, step: Expr, samples: str, part: Part | None = None) -> None:
        self.step, self.axis, self.part = step, -1 if samples == "last" else 0, part
        self.statistics: dict[str, Expr] = {}
        """parameter name → new value"""

    def replace(self, name: str, value: Expr) -> None:
        """Set a parameter's new value; raise DeclarationError if another layer has already replaced it."""
        if name in self.statistics:
            raise DeclarationError(
                f"two layers that replace the parameter {name!r}",
                rule="each layer must have separate statistics",
                fix="give the layers different names",
            )
        self.statistics[name] = value


class Trained(NamedTuple):
    """Output of a layer in training, and new values of parameters by path."""

    output: Expr
    statistics: Mapping[str, Expr]


@runtime_checkable
class TrainingLayer(Protocol):
    """Layer that records other expressions in training."""

    @property
    def name(self) -> str:
        """Name of the layer."""

    mixes_samples: bool
    """whether the result for a sample depends on the other samples of the batch"""
    replaced: tuple[str, ...]
    """paths of the parameters that a step replaces by new statistics"""

    def in_training(self, value: Expr, parameters: Mapping[str, Expr], training: Training) -> Trained:
        """Record the output, and new statistics, from the input and the parameters by path."""

    def settings(self) -> dict[str, Any]:
        """Return the options that must be equal when training is restored, as numbers and strings."""


_STEP_DTYPE = np.dtype(np.int64)


def step_number(iteration: Expr, device: Device) -> Expr:
    """Record the step number on ``device`` from the optimizer's ``iteration``, a float64 scalar on cpu."""
    step = cast(iteration, _STEP_DTYPE)
    return step if device is cpu else to_device(step, device)


def step_operand(device: Device) -> Expr:
    """Record an operand on ``device`` for the step number."""
    return parameter(TensorType((), _STEP_DTYPE, device), "step")


def check_outermost(layer: Layer) -> None:
    """Raise DeclarationError if ``layer`` contains a training layer."""
    for path, inner in _inner_layers(layer):
        if isinstance(inner, TrainingLayer):
            raise DeclarationError(
                f"the {type(inner).__name__} {path!r} inside the {type(layer).__name__} {layer.name!r}",
                rule=f"a {type(inner).__name__} must be a separate node, because it computes differently in training",
                fix=f"module.add_node(ex.train.{type(inner).__name__}(…)) between the nodes of the other layers",
            )


def _inner_layers(layer: Layer) -> Iterator[tuple[str, Layer]]:
    pending = [*getattr(layer, "sublayers", {}).items()]
    while pending:
        path, inner = pending.pop()
        yield path, inner
        pending += [(f"{path}/{name}", sublayer) for name, sublayer in getattr(inner, "sublayers", {}).items()]
