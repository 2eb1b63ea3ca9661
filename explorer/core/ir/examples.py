"""Examples of operations: descriptions of legal operands from which tests draw arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from explorer.core.types.tensor_type import Array, Shape


@dataclass(frozen=True, slots=True)
class Real:
    """Description of a random real operand: uniform in low … high, of a shape and dtype."""

    shape: Shape
    dtype: str
    low: float
    high: float

    def draw(self, generator: np.random.Generator) -> Array:
        """Draw an array."""
        return np.asarray(generator.uniform(self.low, self.high, self.shape)).astype(self.dtype)


def real(*shape: int, dtype: str = "float64", low: float = -1.0, high: float = 1.0) -> Real:
    """Describe an operand uniform in ``low … high``."""
    return Real(shape, dtype, low, high)


@dataclass(frozen=True, slots=True)
class Integers:
    """Description of a random integer operand: low … high − 1, of a shape and dtype."""

    shape: Shape
    dtype: str
    low: int
    high: int

    def draw(self, generator: np.random.Generator) -> Array:
        """Draw an array."""
        return np.asarray(generator.integers(self.low, self.high, self.shape)).astype(self.dtype)


def integers(*shape: int, low: int = 0, high: int = 8, dtype: str = "int64") -> Integers:
    """Describe an integer operand, ``low`` included, ``high`` excluded."""
    return Integers(shape, dtype, low, high)


@dataclass(frozen=True, slots=True, init=False)
class Example:
    """Legal use of an operation: descriptions of its operands, and its attributes."""

    operands: tuple[Real | Integers, ...]
    attributes: dict[str, Any] = field(default_factory=dict)

    def __init__(self, *operands: Real | Integers, **attributes: Any) -> None:
        object.__setattr__(self, "operands", operands)
        object.__setattr__(self, "attributes", attributes)

    def draw(self, seed: int = 0) -> tuple[Array, ...]:
        """Draw an array for each operand."""
        generator = np.random.default_rng(seed)
        return tuple(operand.draw(generator) for operand in self.operands)
