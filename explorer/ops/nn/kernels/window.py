"""Windows that slide over the last two axes of images, for convolution and pooling.

Window i along an axis covers the pixels i · stride − padding + dilation · (0 … size − 1). Convolutions, poolings and
their gradients all ask the same two questions of it: how many windows there are (``output``), and which windows have a
given tap inside the image (``overlap``). Padding is never stored: pixels outside are left out of the views.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from explorer.core.errors import OperandError
from explorer.core.types.tensor_type import whole

Pair: TypeAlias = tuple[int, int]
Padding: TypeAlias = tuple[tuple[int, int], tuple[int, int]]
_FAR, _FARTHEST = 2**31 - 1, 2**53
"""largest size, stride and dilation, and largest padding: beyond them, positions of pixels exceed the integers that
NumPy computes with, and a hostile file can declare any number"""


class Window(NamedTuple):
    """Size, step, padding ((top, bottom), (left, right)) and dilation of a window, in pixels."""

    size: Pair
    strides: Pair
    padding: Padding
    dilation: Pair = (1, 1)
    ceil: bool = False
    """whether a last window may exceed the image, if it starts inside the image or its front padding"""

    def wrong(self) -> str:
        """Return the rule that the window breaks, or ""."""
        if min(*self.size, *self.strides, *self.dilation) < 1:
            return "a window's size, strides and dilation are at least 1"
        if max(*self.size, *self.strides, *self.dilation) > _FAR or max(map(max, self.padding)) > _FARTHEST:
            return f"a window's size, strides and dilation are at most {_FAR}, its padding at most {_FARTHEST}"
        return "padding is not negative" if min(map(min, self.padding)) < 0 else ""

    def output(self, height: int, width: int) -> Pair:
        """Return how many windows fit vertically and horizontally; less than 1 if none fits."""
        counts = []
        for axis, length in enumerate((height, width)):
            before, after = self.padding[axis]
            room = length + before + after - self.dilation[axis] * (self.size[axis] - 1) - 1
            count = room // self.strides[axis] + 1
            # as torch and ONNX (ceil_mode) count: a window that starts in the padding behind the image is left out
            if self.ceil and room % self.strides[axis] and count * self.strides[axis] < length + before:
                count += 1
            counts.append(count)
        return counts[0], counts[1]

    def overlap(self, row: int, column: int, size: Pair, rows: slice, across: int) -> tuple[Any, Any]:
        """Return which windows have their pixel (row, column) inside images of ``size``, and these pixels.

        Both are indices of the last two axes: of windows, counted from ``rows.start``, and of images.
        """
        windows, pixels = [], []
        for axis, (tap, start, stop) in enumerate(((row, rows.start, rows.stop), (column, 0, across))):
            step, first = self.strides[axis], tap * self.dilation[axis] - self.padding[axis][0]
            # the tap's pixel of window i is i · step + first: low is the first i with a pixel ≥ 0, high the first with
            # one beyond the end
            low = max(start, -(first // step))
            high = max(low, min(stop, (size[axis] - 1 - first) // step + 1))
            windows.append(slice(low - start, high - start))
            # an empty range must not end at −1, which would be the last pixel
            pixels.append(slice(low * step + first, max(0, (high - 1) * step + first + 1), step))
        return (..., *windows), (..., *pixels)

    def along(self, axis: int) -> Window:
        """Return the part of the window along one axis, one pixel wide along the other."""
        size, strides, dilation = [
            (both[0], 1) if axis == 0 else (1, both[1]) for both in (self.size, self.strides, self.dilation)
        ]
        padding = (self.padding[0], (0, 0)) if axis == 0 else ((0, 0), self.padding[1])
        return Window(size, strides, padding, dilation, self.ceil)

    def covered(self, rows: slice, height: int) -> slice:
        """Return the rows of an image of ``height`` from the first to the last that rows of windows reach."""
        step, top = self.strides[0], self.padding[0][0]
        reach = self.dilation[0] * (self.size[0] - 1)
        return slice(max(0, rows.start * step - top), max(0, min(height, (rows.stop - 1) * step - top + reach + 1)))


def pair(value: int | tuple[int, ...] | list[int], what: str) -> Pair:
    """Return one number for both axes, or one for each, as a pair."""
    rows, columns = for_each(value, 2, what)
    return whole(rows, what), whole(columns, what)


def for_each(value: Any, count: int, what: str) -> tuple[Any, ...]:
    """Return a value for each of ``count`` axes, given once for all of them or one by one."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
    if len(values) != count:
        raise OperandError(
            f"{what} {value!r}",
            rule=f"there must be one number for all {count} axes, or one for each",
            fix=f"{what}=1, or {what}={(1,) * count}",
        )
    return values


def both_sides(value: int | tuple[Any, ...] | list[Any]) -> Padding:
    """Return padding as ((top, bottom), (left, right)) from one number, one for each axis, or that form itself."""
    if isinstance(value, (tuple, list)) and value and isinstance(value[0], (tuple, list)) and len(value) == 2:
        return pair(value[0], "padding"), pair(value[1], "padding")
    rows, columns = pair(value, "padding")
    return (rows, rows), (columns, columns)
