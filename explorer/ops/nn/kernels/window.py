"""Windows that slide over the last two axes of images, for convolution and pooling.

Window i along an axis covers the pixels i · stride − padding + dilation · (0 … size − 1). Convolutions, poolings and
their gradients all ask the same two questions of it: how many windows there are (``output``), and which windows have a
given tap inside the image (``overlap``). Padding is never stored: pixels outside are left out of the views.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from explorer.core.errors import OperandError
from explorer.core.types.tensor_type import whole

Lengths: TypeAlias = tuple[int, ...]
"""one number for each axis"""
Pair: TypeAlias = tuple[int, int]
Padding: TypeAlias = tuple[Pair, ...]
"""(before, after) for each axis"""
_FAR, _FARTHEST = 2**31 - 1, 2**53
"""largest size, stride and dilation, and largest padding: beyond them, positions of pixels exceed the integers that
NumPy computes with, and a hostile file can declare any number"""


class Window(NamedTuple):
    """Size, step, padding ((before, after) of each axis) and dilation of a window along one to three axes.

    Kernels have windows of two axes, rows and columns.
    """

    size: Lengths
    strides: Lengths
    padding: Padding
    dilation: Lengths = (1, 1)
    ceil: bool = False
    """whether a last window may exceed the image, if it starts inside the image or its front padding"""

    def wrong(self) -> str:
        """Return the rule that the window breaks, or ""."""
        if min(*self.size, *self.strides, *self.dilation) < 1:
            return "a window's size, strides and dilation must be at least 1"
        if max(*self.size, *self.strides, *self.dilation) > _FAR or max(map(max, self.padding)) > _FARTHEST:
            return f"a window's size, strides and dilation must be at most {_FAR}, its padding at most {_FARTHEST}"
        return "padding must not be negative" if min(map(min, self.padding)) < 0 else ""

    def as_image(self) -> Window:
        """Return a window along one axis as a window over images of height 1."""
        return Window((1, *self.size), (1, *self.strides), ((0, 0), *self.padding), (1, *self.dilation), self.ceil)

    def plane(self) -> Window:
        """Return the part of the window along the last two axes."""
        return Window(self.size[-2:], self.strides[-2:], self.padding[-2:], self.dilation[-2:], self.ceil)

    def output(self, *lengths: int) -> Lengths:
        """Return how many windows fit along each axis; less than 1 if none fits."""
        counts = []
        for axis, length in enumerate(lengths):
            before, after = self.padding[axis]
            room = length + before + after - self.dilation[axis] * (self.size[axis] - 1) - 1
            count = room // self.strides[axis] + 1
            # as torch and ONNX (ceil_mode) count: a window that starts in the padding behind the image is left out
            if self.ceil and room % self.strides[axis] and count * self.strides[axis] < length + before:
                count += 1
            counts.append(count)
        return tuple(counts)

    def overlap(self, row: int, column: int, size: Lengths, rows: slice, across: int) -> tuple[Any, Any]:
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


def window_of(size: Any, axes: int, strides: Any, padding: Any, dilation: Any, ceil: bool = False) -> Window:
    """Return the window of arguments, each one number for all axes, or one for each; padding may also be pairs."""
    return Window(
        for_each(size, axes, "window"),
        for_each(strides, axes, "strides"),
        both_sides(padding, axes),
        for_each(dilation, axes, "dilation"),
        ceil,
    )


def for_each(value: Any, axes: int, what: str) -> Lengths:
    """Return an integer for each axis, given once for all of them or one by one."""
    if type(value) is int:  # the frequent case without a loop
        return (value,) * axes
    return tuple([whole(number, what) for number in _repeated(value, axes, what)])


def both_sides(padding: Any, axes: int) -> Padding:
    """Return padding as (before, after) for each axis, from one number, one for each axis, or a pair for each.

    A single axis may also have its pair alone: (1, 2) for ((1, 2),).
    """
    if type(padding) is int:
        return ((padding, padding),) * axes
    if axes == 1 and isinstance(padding, (tuple, list)) and len(padding) == 2:
        padding = (padding,)
    sides = [_repeated(side, 2, "padding") for side in _repeated(padding, axes, "padding")]
    return tuple([(whole(before, "padding"), whole(after, "padding")) for before, after in sides])


def _repeated(value: Any, count: int, what: str) -> tuple[Any, ...]:
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
    if len(values) != count:
        raise OperandError(
            f"{what} {value!r}",
            rule="there must be one number" + (f" for all {count} axes, or one for each" if count > 1 else ""),
            fix=f"{what}=1, or {what}={(1,) * count}",
        )
    return values
