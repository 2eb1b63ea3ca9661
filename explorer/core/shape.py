"""User-visible shapes: tuples with the properties length, rows, columns and channels, depending on the category.

Shapes are plain tuples inside the engine, because many tables use them as keys, but ``x.shape`` returns a `Sizes`. Keys
and attributes treat a `Sizes` as a plain tuple (core/exact_keys.py).
"""

from __future__ import annotations

from explorer.core.errors import OperandError

CATEGORIES = ("scalar", "vector", "matrix", "three-d array")


def category_of(rank: int) -> str:
    """Return MetaNN's name for a number of dimensions: scalar, vector, matrix, three-d array, "4-d array", …"""
    return CATEGORIES[rank] if rank < len(CATEGORIES) else f"{rank}-d array"


class SizeError(OperandError, AttributeError):
    """Raised for properties that shapes of a category lack, such as the rows of a vector."""


class Sizes(tuple[int, ...]):
    """Shape as a tuple of sizes, which also have names for up to three dimensions (MetaNN: the object of Shape())."""

    __slots__ = ()

    @property
    def length(self) -> int:
        """Number of elements of a vector."""
        return self._named("length", {1: 0})

    @property
    def rows(self) -> int:
        """Number of rows of a matrix, or of each matrix of a three-d array."""
        return self._named("rows", {2: 0, 3: 1})

    @property
    def columns(self) -> int:
        """Number of columns of a matrix, or of each matrix in a 3-D array."""
        return self._named("columns", {2: 1, 3: 2})

    @property
    def channels(self) -> int:
        """Number of matrices of a three-d array."""
        return self._named("channels", {3: 0})

    def _named(self, name: str, axis_of_rank: dict[int, int]) -> int:
        if len(self) not in axis_of_rank:
            categories = " or a ".join([category_of(rank) for rank in axis_of_rank])
            raise SizeError(
                f"the {name} of a {category_of(len(self))} of shape {tuple(self)}",
                rule=f"a shape with {name} must be a {categories}",
                fix="index the size by its axis: x.shape[0]",
            )
        return self[axis_of_rank[len(self)]]
