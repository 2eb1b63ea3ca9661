"""Every registered operation with each of its examples: what the laws range over, new operations included."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest

from explorer.core import registry
from explorer.core.ir.examples import Example, Real
from explorer.core.ir.operation import Operation
from explorer.core.types.tensor_type import Array, TensorType

FAMILIES = "explorer."


class Case(NamedTuple):
    """An operation and one of its examples."""

    operation: Operation
    example: Example

    def arrays(self, dtype: str | None = None, seed: int = 0) -> list[Array]:
        """Operands; ``dtype`` replaces the dtype of the floating ones."""
        drawn = self.example.draw(seed)
        return [array.astype(dtype) if dtype is not None and array.dtype.kind == "f" else array for array in drawn]

    @property
    def types(self) -> tuple[TensorType, ...]:
        return tuple(TensorType(given.shape, np.dtype(given.dtype)) for given in self.example.operands)


def operations() -> list[type[Operation]]:
    """The operations of the package itself, by name; those that tests declare are left out."""
    found = registry.operations
    return [found[name] for name in sorted(found) if found[name].__module__.startswith(FAMILIES)]


def every_case() -> list[Case]:
    return [
        Case(operation_class(**example.attributes), example)
        for operation_class in operations()
        for example in operation_class.examples
    ]


def parameters(cases: Iterable[Case]) -> list[Any]:
    """What pytest runs a test over, named by operation and number of the example."""
    counts: dict[str, int] = {}
    found = []
    for case in cases:
        number = counts[case.operation.name] = counts.get(case.operation.name, -1) + 1
        found.append(pytest.param(case, id=f"{case.operation.name}-{number}"))
    return found


def floating(example: Example) -> list[int]:
    """Places of the floating operands."""
    return [index for index, given in enumerate(example.operands) if isinstance(given, Real) and given.dtype[0] == "f"]
