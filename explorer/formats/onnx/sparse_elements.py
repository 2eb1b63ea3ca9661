"""Elements of sparse tensors: those that are not zero, and their places.

A place is a number in the order of all elements, or one coordinate an axis (the standard: SparseTensorProto).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from explorer.core.errors import FileError
from explorer.core.memory_budget import claim_memory


class _Stored(Protocol):
    def array(self) -> NDArray[Any]: ...
    def check(self) -> None: ...


@dataclass(frozen=True)
class SparseElements:
    """The elements of a tensor that are not zero, as a file has them; all others are zero, or empty texts."""

    tensor: str
    shape: tuple[int, ...]
    values: _Stored
    indices: _Stored
    path: Path

    def check(self) -> None:
        """Raise FileError where elements or places cannot be read from their file any more."""
        self.values.check()
        self.indices.check()

    def dense(self) -> NDArray[Any]:
        """Return the whole tensor.

        Raises FileError for a place outside it and for one with two elements, BudgetError where memory has no room.
        """
        values, indices = self.values.array(), self.indices.array()
        claim_memory(f"sparse tensor {self.tensor!r}", math.prod(self.shape) * values.itemsize)
        lengths = self.shape if indices.ndim == 2 else (math.prod(self.shape),)
        places = indices.reshape(values.size, len(lengths))
        outside = ((places < 0) | (places >= np.array(lengths, np.int64))).any(axis=1)
        if outside.any():
            inside = f"places must lie in {', '.join([f'0 … {length - 1}' for length in lengths])}"
            empty = "a sparse tensor must have no element where one of its sizes is 0"
            raise self._error(f"an element at {places[outside][0].tolist()}", empty if 0 in lengths else inside)
        steps = [math.prod(lengths[axis + 1 :]) for axis in range(len(lengths))]
        numbers = places @ np.array(steps, np.int64)
        order = np.argsort(numbers, kind="stable")
        twice = order[1:][numbers[order[1:]] == numbers[order[:-1]]]
        if twice.size:
            raise self._error(
                f"two elements at {places[twice[0]].tolist()}", "a sparse tensor must have one element at each place"
            )
        array = np.zeros(math.prod(self.shape), values.dtype)
        array[numbers] = values
        return array.reshape(self.shape)

    def _error(self, fault: str, rule: str) -> FileError:
        return FileError(
            f"sparse tensor {self.tensor!r} of shape {self.shape} has {fault}",
            path=str(self.path),
            rule=rule,
            fix="export the model again, or give the file that the exporter wrote",
        )
