"""Fillers: random or constant initial values of parameters.

Initializers and parameter policies use fillers. A filler draws from the generator it is given, which is seeded by the
initializer's seed and the parameter's name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from explorer.core.argument_checks import named_methods
from explorer.core.errors import DeclarationError
from explorer.core.policy import Minor, Policies, PolicyClass
from explorer.core.types.tensor_type import Array, Shape


class VarScalePolicy(PolicyClass):
    """Policy that overrides the distribution of VarScale fillers; with None, each filler keeps its distribution."""

    distribution = Minor(None, among=(None, "uniform", "normal"), recorded=False)


class Filler:
    """Base class of fillers, which draw the elements of a parameter; subclasses define ``draw``."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def draw(self, generator: np.random.Generator, shape: Shape) -> Any:
        """Draw an array of ``shape``; the caller converts it to the parameter's dtype."""
        raise DeclarationError(
            f"the filler {type(self).__name__} without draw",
            rule="a filler must define draw()",
            fix="def draw(self, generator, shape): return generator.normal(size=shape)",
        )

    def with_policies(self, policies: Policies) -> Filler:
        """Return the filler for a parameter with ``policies``; by default, the filler itself."""
        return self

    def fill(self, shape: Shape, generator: np.random.Generator) -> Array:
        """Draw an array; raise DeclarationError if ``draw`` returns another shape or non-numeric elements."""
        drawn = np.asarray(self.draw(generator, shape))
        if drawn.shape != shape or drawn.dtype.kind not in "biuf":
            raise DeclarationError(
                f"{type(self).__name__} drew {drawn.dtype.name} elements of shape {drawn.shape}",
                rule=f"draw() must return numbers of shape {shape}",
                fix="return generator.normal(size=shape)",
            )
        return drawn


@named_methods
@dataclass(frozen=True)
class Constant(Filler):
    """Filler that sets all elements to one number."""

    value: float = 0.0

    def draw(self, generator: np.random.Generator, shape: Shape) -> Any:
        """Draw an array of ``shape``."""
        return np.full(shape, self.value)


@named_methods
@dataclass(frozen=True)
class Uniform(Filler):
    """Filler that draws uniformly from [low, high)."""

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise DeclarationError(
                f"{self!r}", rule="low must not exceed high", fix=f"Uniform({self.high!r}, {self.low!r})"
            )

    def draw(self, generator: np.random.Generator, shape: Shape) -> Any:
        """Draw an array of ``shape``."""
        return generator.uniform(self.low, self.high, shape)


@named_methods
@dataclass(frozen=True)
class Gaussian(Filler):
    """Filler that draws from a normal distribution."""

    mean: float = 0.0
    deviation: float = 1.0

    def __post_init__(self) -> None:
        if not self.deviation >= 0:
            raise DeclarationError(f"{self!r}", rule="a standard deviation must not be negative", fix="deviation=0.01")

    def draw(self, generator: np.random.Generator, shape: Shape) -> Any:
        """Draw an array of ``shape``."""
        return generator.normal(self.mean, self.deviation, shape)


@named_methods
@dataclass(frozen=True)
class VarScale(Filler):
    """Filler with mean 0 and variance ``scale`` / fan, where the fan counts a weight's connections.

    The fan-in and fan-out of a matrix (in, out) are its sizes. For filters (out, in, …), they are multiplied by the
    window size. For parameters with fewer than two axes, both are the number of elements. The default is Glorot
    initialization, and ``scale=2, fan="in"`` is He initialization. The policy VarScalePolicy.distribution
    (PNormVarScale, PUniformVarScale) overrides the distribution.
    """

    scale: float = 1.0
    distribution: Literal["uniform", "normal"] = "uniform"
    fan: Literal["in", "out", "avg"] = "avg"

    def __post_init__(self) -> None:
        if not self.scale > 0 or self.distribution not in ("uniform", "normal") or self.fan not in ("in", "out", "avg"):
            raise DeclarationError(
                f"{self!r}",
                rule='scale must be positive, distribution "uniform" or "normal", and fan "in", "out" or "avg"',
                fix='VarScale(2, "normal", "in") for He, VarScale(1, "uniform", "avg") for Glorot',
            )

    def with_policies(self, policies: Policies) -> Filler:
        """Return the filler with the distribution set by ``policies``, if any."""
        chosen = policies.select(VarScalePolicy).distribution
        return self if chosen is None else replace(self, distribution=chosen)

    def draw(self, generator: np.random.Generator, shape: Shape) -> Any:
        """Draw an array of ``shape``."""
        fan_in, fan_out = _fans(shape)
        fan = {"in": fan_in, "out": fan_out, "avg": (fan_in + fan_out) / 2}[self.fan]
        variance = self.scale / max(1.0, fan)
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
