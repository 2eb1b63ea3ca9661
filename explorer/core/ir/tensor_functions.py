"""Functions of tensors that hold images and matrices: channels, rows and columns (InferFramework: Tensor).

Memory is in rows-first order (row-major): of a tensor (channels, rows, cols) the columns are neighbours, then the rows.
Functions that give or take elements as a list say which order they use; ``row_major=False`` is columns first within
each channel. What changes elements in place is refused with StateError once an expression uses the tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from explorer.core.checked_functions import named_methods
from explorer.core.errors import OperandError
from explorer.core.shape import Sizes
from explorer.core.types.tensor_type import Array
from explorer.record.reasons import counted_text

_Self = TypeVar("_Self", bound="TensorFunctions")


@named_methods
class TensorFunctions:
    """Access by channel, row and column, and changes in place; ``Tensor`` inherits them."""

    __slots__ = ()
    if TYPE_CHECKING:
        # Of Tensor and Expr.

        @property
        def array(self) -> Array:
            """Elements."""

        @property
        def shape(self) -> Sizes:
            """Sizes of the axes."""

        @property
        def size(self) -> int:
            """Number of elements."""

        def __setitem__(self, index: Any, value: Any) -> None: ...

        def refuse_shared(self) -> None:
            """Raise StateError if elements must not be changed."""

    # -- sizes -----------------------------------------------------------------------------------------------------

    @property
    def shapes(self) -> tuple[int, int, int]:
        """Channels, rows and columns; a matrix has one channel, a vector one row."""
        if len(self.shape) > 3:
            raise OperandError(
                f"channels, rows and columns of a tensor {'×'.join(map(str, self.shape))}",
                rule="a tensor must have at most three axes to be read by channel, row and column",
                fix="x.shape has the sizes of all axes",
            )
        channels, rows, columns = (1, 1, 1, *self.shape)[-3:]
        return channels, rows, columns

    @property
    def channels(self) -> int:
        """Number of matrices, 1 of a matrix or a vector."""
        return self.shapes[0]

    @property
    def rows(self) -> int:
        """Number of rows of each matrix, 1 of a vector."""
        return self.shapes[1]

    @property
    def cols(self) -> int:
        """Number of columns of each matrix; of a vector, its length."""
        return self.shapes[2]

    @property
    def raw_shapes(self) -> tuple[int, ...]:
        """Sizes as it was built: (cols,), (rows, cols), or (rows, cols, channels)."""
        channels, rows, columns = self.shapes
        return (rows, columns, channels) if len(self.shape) == 3 else self.shape

    @property
    def empty(self) -> bool:
        """Whether it has no elements."""
        return self.size == 0

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def data(self) -> Array:
        """The elements as a read-only array (channels, rows, cols) of the tensor's memory."""
        return self.array.reshape(self.shapes)

    def at(self, channel: int, row: int, col: int) -> Any:
        """Return an element by channel, row and column."""
        named = {"channel": channel, "row": row, "col": col}
        return self.data[tuple([self._checked(name, at, axis) for axis, (name, at) in enumerate(named.items())])]

    def slice(self, channel: int) -> Array:
        """Return the matrix (rows, cols) of a channel, read-only, in the tensor's memory."""
        matrix: Array = self.data[self._checked("channel", channel, 0)]
        return matrix

    def index(self, offset: int, *, row_major: bool = True) -> Any:
        """Return an element by its number, rows first; with row_major=False, columns first in each channel."""
        return self.values(row_major)[self._offset(offset)]

    def values(self, row_major: bool = True) -> Array:
        """Return all elements, channel by channel, rows first or columns first in each; the latter are a copy."""
        elements = self.data if row_major else self.data.transpose(0, 2, 1)
        return elements.reshape(-1)

    def raw_ptr(self, offset: int = 0) -> Array:
        """Return the elements from a number on, rows first: a read-only array in the tensor's memory."""
        return self.values()[self._offset(offset) if offset else 0 :]

    def matrix_raw_ptr(self, channel: int) -> Array:
        """Return the elements of a channel, rows first: a read-only array in the tensor's memory."""
        return self.slice(channel).reshape(-1)

    def show(self) -> None:
        """Print the matrix of each channel."""
        for channel, matrix in enumerate(self.data):
            print(f"channel {channel}:\n{matrix}")

    def show_shapes(self) -> None:
        """Print the numbers of channels, rows and columns."""
        print("{} channels, {} rows, {} columns".format(*self.shapes))

    # -- changes in place ------------------------------------------------------------------------------------------

    def set_data(self: _Self, values: Any) -> _Self:
        """Set all elements to those of an array of the tensor's own shape, or (channels, rows, cols)."""
        array = np.asarray(values)
        if array.shape not in (self.shape, self.shapes):
            raise OperandError(
                f"data of shape {array.shape} for a tensor {self.shape}",
                rule="the data must have the tensor's shape",
                fix=f"values.reshape({self.shape}), or fill(values) for a list of elements",
            )
        self[...] = array.reshape(self.shape)
        return self

    def fill(self: _Self, values: Any, row_major: bool = True) -> _Self:
        """Set all elements to one number, or to a list of them, rows first or columns first in each channel."""
        array = np.asarray(values)
        if array.ndim:
            if array.size != self.size:
                raise OperandError(
                    f"{counted_text(array.size, 'element')} for a tensor of {self.size}",
                    rule="there must be one number, or as many as the tensor has elements",
                    fix=f"a list of {counted_text(self.size, 'number')}",
                )
            channels, rows, columns = self.shapes
            ordered = array.reshape((channels, rows, columns) if row_major else (channels, columns, rows))
            array = (ordered if row_major else ordered.transpose(0, 2, 1)).reshape(self.shape)
        self[...] = array
        return self

    def set_index(self: _Self, offset: int, value: Any, *, row_major: bool = True) -> _Self:
        """Set an element by its number, rows first; with row_major=False, columns first in each channel."""
        channels, rows, columns = self.shapes
        place = self._offset(offset)
        if row_major:
            position: Any = np.unravel_index(place, self.shape)
        else:
            channel, col, row = np.unravel_index(place, (channels, columns, rows))
            position = (channel, row, col)[3 - len(self.shape) :]
        self[position] = value
        return self

    def ones(self: _Self) -> _Self:
        """Set all elements to 1."""
        return self.fill(1)

    def rand(self: _Self, seed: int = 0) -> _Self:
        """Set all elements to numbers of a standard normal distribution, the same for the same seed."""
        return self.set_data(np.random.default_rng(seed).normal(size=self.shape))

    def transform(self: _Self, function: Callable[[Array], Any]) -> _Self:
        """Set the elements to what a function makes of an array of them; it returns one of the same shape."""
        self.refuse_shared()
        return self.set_data(function(np.array(self.array)))

    # -- others ----------------------------------------------------------------------------------------------------

    def _checked(self, name: str, position: int, axis: int) -> int:
        count = self.shapes[axis]
        if not 0 <= position < count:
            raise OperandError(
                f"{name} {position} of {count}", rule=f"{name} must be a number from 0 to {count - 1}", fix=f"{name}=0"
            )
        return position

    def _offset(self, offset: int) -> int:
        if not 0 <= offset < self.size:
            raise OperandError(
                f"element {offset} of {self.size}", rule="an element must be named by a number from 0 on", fix="0"
            )
        return offset
