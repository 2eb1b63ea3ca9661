"""Fillers: how a parameter's elements are drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from explorer.core.errors import DeclarationError
from explorer.core.policy import Minor, Policies, PolicyClass
from explorer.core.types.tensor_type import Array, Shape


class VarScalePolicy(PolicyClass):
    """How a VarScale filler draws: as it was made for None."""

    distribution = Minor(None, among=(None, "uniform", "normal"), recorded=False)


class Filler:
    """What draws the elements of a parameter; a user's own one overrides ``draw``."""

    def draw(self, generator: np.random.Generator, shape: Shape) -> Any:
        """Numbers of a shape; they are converted to the parameter's dtype."""
        raise DeclarationError(
            f"the filler {type(self).__name__} without draw",
            rule="a filler says what it draws",
            fix="def draw(self, generator, shape): return generator.normal(size=shape)",
        )

    def under(self, policies: Policies) -> Filler:
        """The filler that draws what a parameter's policies ask for; itself unless a subclass reads some."""
        return self

    def fill(self, shape: Shape, generator: np.random.Generator) -> Array:
        """What it draws; raises DeclarationError for a filler that drew another shape, or no numbers."""
        drawn = np.asarray(self.draw(generator, shape))
        if drawn.shape != shape or drawn.dtype.kind not in "biuf":
            raise DeclarationError(
                f"{type(self).__name__} drew {drawn.dtype.name} of the shape {drawn.shape}",
                rule=f"it was asked for numbers of the shape {shape}",
                fix="return generator.normal(size=shape), for instance",
            )
        return drawn


@dataclass(frozen=True)
class Constant(Filler):
    """Every element is the same number."""

    value: float = 0.0

    def draw(self, generator: np.random.Generator, shape: Shape) -> Any:
        """Numbers of a shape."""
        return np.full(shape, self.value)


@dataclass(frozen=True)
class Uniform(Filler):
    """Evenly from ``low`` up to, but not, ``high``."""

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise DeclarationError(f"{self!r}", rule="low is at most high", fix="turn them round")

    def draw(self, generator: np.random.Generator, shape: Shape) -> Any:
        """Numbers of a shape."""
        return generator.uniform(self.low, self.high, shape)


@dataclass(frozen=True)
class Gaussian(Filler):
    """Normally distributed."""

    mean: float = 0.0
    deviation: float = 1.0

    def __post_init__(self) -> None:
        if not self.deviation >= 0:
            raise DeclarationError(f"{self!r}", rule="a standard deviation is not negative")

    def draw(self, generator: np.random.Generator, shape: Shape) -> Any:
        """Numbers of a shape."""
        return generator.normal(self.mean, self.deviation, shape)


@dataclass(frozen=True)
class VarScale(Filler):
    """Zero on average, with the variance ``scale`` over the number of connections (fan) of a weight.

    A matrix (in, out) has those fans; filters (out, in, …) have their window's size beside; with fewer than two
    dimensions both fans are the number of elements. Glorot's filler is the default, He's is ``scale=2, fan="in"``. The
    policy VarScalePolicy.distribution (PNormVarScale, PUniformVarScale) chooses another distribution.
    """

    scale: float = 1.0
    distribution: Literal["uniform", "normal"] = "uniform"
    fan: Literal["in", "out", "avg"] = "avg"

    def __post_init__(self) -> None:
        if not self.scale > 0 or self.distribution not in ("uniform", "normal") or self.fan not in ("in", "out", "avg"):
            raise DeclarationError(
                f"{self!r}", rule='scale is positive, distribution "uniform" or "normal", fan "in", "out" or "avg"'
            )

    def under(self, policies: Policies) -> Filler:
        """With the distribution that a policy chooses."""
        chosen = policies.select(VarScalePolicy).distribution
        return self if chosen is None else replace(self, distribution=chosen)

    def draw(self, generator: np.random.Generator, shape: Shape) -> Any:
        """Numbers of a shape."""
        inward, outward = _fans(shape)
        connections = {"in": inward, "out": outward, "avg": (inward + outward) / 2}[self.fan]
        variance = self.scale / max(1.0, connections)
        if self.distribution == "normal":
            return generator.normal(0.0, math.sqrt(variance), shape)
        limit = math.sqrt(3 * variance)
        return generator.uniform(-limit, limit, shape)


def _fans(shape: Shape) -> tuple[float, float]:
    if len(shape) < 2:
        return math.prod(shape), math.prod(shape)
    if len(shape) == 2:
        return cast("tuple[float, float]", shape)
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window
