"""User-visible shape: a tuple with the properties length, rows, columns and channels, depending on its category.

Shapes inside the engine are plain tuples, which are keys of many tables; ``x.shape`` creates one of these for the user.
Keys and attributes treat them as plain tuples (core/exact_keys.py).
"""

from __future__ import annotations

from explorer.core.errors import OperandError

CATEGORIES = ("scalar", "vector", "matrix", "three-d array")


def category_of(rank: int) -> str:
    """MetaNN's word for a rank: scalar, vector, matrix, three-d array, then "4-d array" and so on."""
    return CATEGORIES[rank] if rank < len(CATEGORIES) else f"{rank}-d array"


class SizeError(OperandError, AttributeError):
    """Raised if a shape is asked for a size that its category does not have."""


class Sizes(tuple[int, ...]):
    """A shape: a tuple of sizes, in which the sizes of small ranks have names (MetaNN: the object of Shape())."""

    __slots__ = ()

    @property
    def length(self) -> int:
        """Elements of a vector."""
        return self._named("length", {1: 0})

    @property
    def rows(self) -> int:
        """Rows of a matrix, or of each matrix of a three-d array."""
        return self._named("rows", {2: 0, 3: 1})

    @property
    def columns(self) -> int:
        """Columns of a matrix, or of each matrix of a three-d array."""
        return self._named("columns", {2: 1, 3: 2})

    @property
    def channels(self) -> int:
        """Matrices of a three-d array."""
        return self._named("channels", {3: 0})

    def _named(self, name: str, places: dict[int, int]) -> int:
        if len(self) not in places:
            having = " or a ".join([category_of(rank) for rank in places])
            raise SizeError(
                f"the {name} of a {category_of(len(self))} of shape {tuple(self)}",
                rule=f"what has {name} must be a {having}",
                fix="take a size by its axis: x.shape[0]",
            )
        return self[places[len(self)]]
