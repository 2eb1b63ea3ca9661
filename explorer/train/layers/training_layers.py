"""Layers that compute otherwise while a module is trained: what a step gives them, and what they give back.

In inference they are layers like all others. In training a node asks them for other expressions (``in_training``),
which may read the number of the step, and replace statistics that are parameters of the layer.
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
    """Samples of a batch that one worker trains on: from ``first`` to before ``last`` of ``whole``."""

    first: int
    last: int
    whole: int


class Training:
    """Step of a training as layers see it: its number, a whole scalar, and the statistics that they replace."""

    def __init__(self, step: Expr, samples: str, part: Part | None = None) -> None:
        self.step, self.axis, self.part = step, -1 if samples == "last" else 0, part
        self.statistics: dict[str, Expr] = {}
        """new value by the name of the parameter"""

    def replace(self, name: str, value: Expr) -> None:
        """Enter the new value of a parameter; raises DeclarationError where a layer before has replaced it."""
        if name in self.statistics:
            raise DeclarationError(
                f"two layers that replace the parameter {name!r}",
                rule="each layer must have statistics of its own",
                fix="give the layers different names",
            )
        self.statistics[name] = value


class Trained(NamedTuple):
    """Output of a layer in training, and the new values of its parameters by path that the step replaces."""

    output: Expr
    statistics: Mapping[str, Expr]


@runtime_checkable
class TrainingLayer(Protocol):
    """Layer with expressions of its own for training."""

    @property
    def name(self) -> str:
        """Name of the layer."""

    mixes_samples: bool
    """whether a sample's result depends on the other samples of the batch"""
    replaced: tuple[str, ...]
    """paths of the parameters that a step replaces by new statistics"""

    def in_training(self, value: Expr, parameters: Mapping[str, Expr], training: Training) -> Trained:
        """Record the output, and new statistics, from the input and parameters by path."""

    def settings(self) -> dict[str, Any]:
        """Return the options that a restored training must share, as numbers and texts."""


_WHOLE = np.dtype(np.int64)


def step_number(iteration: Expr, device: Device) -> Expr:
    """Record the number of a step on a device from the optimizer's count, a float64 scalar of cpu."""
    step = cast(iteration, _WHOLE)
    return step if device is cpu else to_device(step, device)


def step_operand(device: Device) -> Expr:
    """Record an operand for the number of a step."""
    return parameter(TensorType((), _WHOLE, device), "step")


def check_outermost(layer: Layer) -> None:
    """Raise DeclarationError for a layer inside another one that would not know that it is trained."""
    for path, inner in _inside(layer):
        if isinstance(inner, TrainingLayer):
            raise DeclarationError(
                f"the {type(inner).__name__} {path!r} inside the {type(layer).__name__} {layer.name!r}",
                rule=f"a {type(inner).__name__} must be a node of its own, since it computes otherwise in training",
                fix=f"module.add_node(ex.train.{type(inner).__name__}(…)) between the nodes of the other layers",
            )


def _inside(layer: Layer) -> Iterator[tuple[str, Layer]]:
    waiting = [*getattr(layer, "sublayers", {}).items()]
    while waiting:
        path, inner = waiting.pop()
        yield path, inner
        waiting += [(f"{path}/{name}", each) for name, each in getattr(inner, "sublayers", {}).items()]
