"""Examples of operations: descriptions of valid operands from which tests draw arrays.

Arrays are drawn with a seed, so that failures are reproducible. The examples use ranges in which the operation is
smooth (away from the kink of relu, inside a logarithm's domain), because only there do finite differences approximate
gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from explorer.core.argument_checks import named, named_methods
from explorer.core.types.tensor_type import Array, Shape


@dataclass(frozen=True, slots=True)
class Real:
    """Description of a random floating operand: shape, dtype, and the bounds of its uniform distribution."""

    shape: Shape
    dtype: str
    low: float
    high: float

    def draw(self, generator: np.random.Generator) -> Array:
        """Return an array of the described shape and dtype, drawn from ``generator``."""
        return np.asarray(generator.uniform(self.low, self.high, self.shape)).astype(self.dtype)


@named
def real(*shape: int, dtype: str = "float64", low: float = -1.0, high: float = 1.0) -> Real:
    """Describe a floating operand with sizes ``shape`` (none for a scalar), uniform between ``low`` and ``high``.

    >>> (x,) = ex.Example(ex.real(2, 3, dtype="float32")).draw()
    >>> x.shape, x.dtype, bool(abs(x).max() <= 1)
    ((2, 3), dtype('float32'), True)
    """
    return Real(shape, dtype, low, high)


@dataclass(frozen=True, slots=True)
class Integers:
    """Description of a random integer operand: shape, dtype, and its range low … high − 1."""

    shape: Shape
    dtype: str
    low: int
    high: int

    def draw(self, generator: np.random.Generator) -> Array:
        """Return an array of the described shape and dtype, drawn from ``generator``."""
        return np.asarray(generator.integers(self.low, self.high, self.shape)).astype(self.dtype)


@named
def integers(*shape: int, low: int = 0, high: int = 8, dtype: str = "int64") -> Integers:
    """Describe an integer operand with sizes ``shape``, from ``low`` (included) to ``high`` (excluded).

    >>> (indices,) = ex.Example(ex.integers(100, high=3)).draw()
    >>> int(indices.min()), int(indices.max())
    (0, 2)
    """
    return Integers(shape, dtype, low, high)


@named_methods
@dataclass(frozen=True, slots=True, init=False)
class Example:
    """Valid use of an operation: descriptions of its operands, and its attributes by name.

    Operation classes list examples in ``examples``. Explorer's tests draw arrays for them and check the operation's
    laws: computed results have the inferred types, gradients agree with finite differences, and batched operations
    agree with loops.

    >>> example = ex.Example(ex.real(2, 3), ex.integers(4, high=10), axis=1)
    >>> [array.shape for array in example.draw(seed=0)], example.attributes
    ([(2, 3), (4,)], {'axis': 1})
    """

    operands: tuple[Real | Integers, ...]
    attributes: dict[str, Any] = field(default_factory=dict)

    def __init__(self, *operands: Real | Integers, **attributes: Any) -> None:
        object.__setattr__(self, "operands", operands)
        object.__setattr__(self, "attributes", attributes)

    def draw(self, seed: int = 0) -> tuple[Array, ...]:
        """Return one random array per operand."""
        generator = np.random.default_rng(seed)
        return tuple(operand.draw(generator) for operand in self.operands)
