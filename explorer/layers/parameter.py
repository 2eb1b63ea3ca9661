"""Parameters of layers: named tensors that training changes, and their gradients collected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.expr import Expr
from explorer.core.tensor import Tensor, tensor
from explorer.core.types import Array
from explorer.ops.arithmetic import add_n


class Parameter:
    """A name and the tensor that it stands for now; layers that share a parameter hold the same one."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Tensor) -> None:
        self.name, self.value = name, value

    def assign(self, array: Any) -> None:
        """Give it new elements, copied; what was recorded before keeps the old ones.

        Raises OperandError for another shape, or numbers that its dtype cannot hold.
        """
        given = self.check(array)
        self.value = tensor(given.astype(self.value.dtype), name=self.name, device=self.value.device)

    def check(self, array: Any) -> Array:
        """The array; raises OperandError where it cannot be assigned."""
        given = np.asarray(array)
        kind = self.value.tensor_type
        if given.shape != kind.shape or not np.can_cast(given.dtype, kind.dtype, "same_kind"):
            raise OperandError(
                f"the parameter {self.name!r} ({kind}) assigned {given.dtype.name} {given.shape}",
                rule="a parameter keeps its shape and its kind of number",
            )
        return given

    @property
    def array(self) -> Array:
        """Its elements, read-only."""
        return self.value.array

    def __repr__(self) -> str:
        return f"Parameter({self.name!r}, {self.value.type})"


class GradCollector:
    """Gradients by parameter: those of a parameter that several layers share, or that ran several times, are summed."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Parameter, list[Expr]]] = {}

    def collect(self, parameter: Parameter, gradient: Expr) -> None:
        """One more gradient of a parameter."""
        self._found.setdefault(id(parameter), (parameter, []))[1].append(gradient)

    def __iter__(self) -> Iterator[tuple[Parameter, Expr]]:
        """Each parameter with the expression of its gradient, in the order of collection."""
        for parameter, parts in self._found.values():
            yield parameter, parts[0] if len(parts) == 1 else add_n(*parts)

    def __len__(self) -> int:
        return len(self._found)

    def clear(self) -> None:
        """Forget all."""
        self._found.clear()
