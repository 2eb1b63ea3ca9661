"""Members: the results of a mapped function as a sequence of expressions, in the order of the samples.

Recording an expression for each of a thousand results would cost as much as computing them. So the results are rows of
a few values, one for each shape, and the expression of a row is recorded when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.pytree import Container
from explorer.ops.manipulation.concat import GatherStack
from explorer.ops.manipulation.slicing import Index0
from explorer.record.reasons import counted_text


@dataclass(frozen=True, slots=True)
class Rows:
    """Places of members in values whose first axis holds them; called with values, it returns their members."""

    places: tuple[tuple[int, int], ...] | range
    """number of the value, and row in it, of each member; a range for all rows of one value in their order"""

    def __call__(self, values: Sequence[Any]) -> Any:
        if all(isinstance(value, Expr) for value in values):
            return Members(values, self.places)
        # The index … keeps a number an array.
        if isinstance(self.places, range):
            return [*values[0]] if np.ndim(values[0]) > 1 else [values[0][row, ...] for row in self.places]
        return [values[value][row, ...] for value, row in self.places]


class Members(Container):
    """Sequence of the results of a mapped function; an index or an iteration records the rows that it reads.

    ``ex.evaluate`` returns a list of arrays. ``stacked`` is one expression for all members, where they have one shape.

    >>> members = ex.map(lambda x: x.sum(), [np.ones(2), np.ones(3)])
    >>> len(members), members[1].shape, members.stacked.shape
    (2, (), (2,))
    >>> ex.evaluate(members)
    [array(2.), array(3.)]
    """

    __slots__ = ("layout", "leaves")
    leaves: tuple[Expr, ...]
    """values whose rows the members are"""
    layout: Rows

    def __init__(self, values: Sequence[Expr], places: tuple[tuple[int, int], ...] | range) -> None:
        self.leaves, self.layout = tuple(values), Rows(places)

    def __len__(self) -> int:
        return len(self.layout.places)

    @overload
    def __getitem__(self, index: int) -> Expr: ...

    @overload
    def __getitem__(self, index: slice) -> list[Expr]: ...

    def __getitem__(self, index: int | slice) -> Expr | list[Expr]:
        if isinstance(index, slice):
            return [self._member(place) for place in range(*index.indices(len(self)))]
        length = len(self)
        if not -length <= index < length:
            raise OperandError(
                f"member {index} of {self!r}",
                rule=f"the index must be from {-length} to {length - 1}" if length else "there must be members",
                fix=f"members[{length - 1}]" if length else "",
            )
        return self._member(index % length)

    def __iter__(self) -> Iterator[Expr]:
        return (self._member(place) for place in range(len(self)))

    def __expr__(self) -> Expr:
        return self.stacked

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.stacked.__array__(dtype, copy)

    def __repr__(self) -> str:
        shapes = ", ".join(sorted({repr(value.shape[1:]) for value in self.leaves}))
        return f"<{counted_text(len(self), 'member')} of shape {shapes}>"

    @property
    def stacked(self) -> Expr:
        """The members as the rows of one expression: n of (…) → (n, …); raises OperandError if shapes differ."""
        places = self.layout.places
        if isinstance(places, range):
            return self.leaves[0]
        types = {value.tensor_type.with_shape(value.shape[1:]) for value in self.leaves}
        if len(types) > 1:
            raise OperandError(
                f"the stack of {self!r}",
                rule="members of a stack must have one shape and dtype",
                fix="read the members one by one, or pad the samples to one shape",
            )
        return GatherStack.of([(self.leaves[value], row) for value, row in places])

    def _member(self, place: int) -> Expr:
        places = self.layout.places
        value, row = (0, place) if isinstance(places, range) else places[place]
        return Index0(row)(self.leaves[value])
