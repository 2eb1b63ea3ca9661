"""Sliding windows for convolution and pooling.

Window i along an axis covers the pixels i · stride − padding + dilation · (0 … size − 1). Kernels need the number of
windows (``output``), and the windows whose given tap is inside the image (``overlap``). Padding is never stored; views
leave out the pixels outside the image.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from explorer.core.errors import OperandError
from explorer.core.types.tensor_type import as_integer

Lengths: TypeAlias = tuple[int, ...]
"""one number for each axis"""
Pair: TypeAlias = tuple[int, int]
Padding: TypeAlias = tuple[Pair, ...]
"""(before, after) for each axis"""
_MAX_LENGTH, _MAX_PADDING = 2**31 - 1, 2**53
"""maximum size, stride and dilation, and maximum padding; larger numbers, as in hostile files, would overflow
positions"""


class Window(NamedTuple):
    """Size, stride, padding and dilation of a window along one to three axes.

    Padding is (before, after) for each axis. Kernels use windows along two axes, rows and columns.
    """

    size: Lengths
    strides: Lengths
    padding: Padding
    dilation: Lengths = (1, 1)
    ceil: bool = False
    """whether a last window that starts inside the image or its front padding may extend beyond the padded image"""

    def problem(self) -> str:
        """Return the rule that the attributes violate, or ""."""
        if min(*self.size, *self.strides, *self.dilation) < 1:
            return "a window's size, strides and dilation must be at least 1"
        if max(*self.size, *self.strides, *self.dilation) > _MAX_LENGTH or max(map(max, self.padding)) > _MAX_PADDING:
            return f"window size, strides and dilation must be at most {_MAX_LENGTH}, padding at most {_MAX_PADDING}"
        return "padding must not be negative" if min(map(min, self.padding)) < 0 else ""

    def as_image(self) -> Window:
        """Convert a window along one axis to a window over images of height 1."""
        return Window((1, *self.size), (1, *self.strides), ((0, 0), *self.padding), (1, *self.dilation), self.ceil)

    def plane(self) -> Window:
        """Return the window restricted to the last two axes."""
        return Window(self.size[-2:], self.strides[-2:], self.padding[-2:], self.dilation[-2:], self.ceil)

    def output(self, *lengths: int) -> Lengths:
        """Return the number of windows along each axis, which is less than 1 if no window fits."""
        counts = []
        for axis, length in enumerate(lengths):
            before, after = self.padding[axis]
            span = length + before + after - self.dilation[axis] * (self.size[axis] - 1) - 1
            count = span // self.strides[axis] + 1
            # as in PyTorch and ONNX (ceil_mode), windows that start in the padding after the image are excluded
            if self.ceil and span % self.strides[axis] and count * self.strides[axis] < length + before:
                count += 1
            counts.append(count)
        return tuple(counts)

    def overlap(self, row: int, column: int, size: Lengths, rows: slice, columns: int) -> tuple[Any, Any]:
        """Return the windows whose tap (row, column) is inside images of ``size``, and the pixels at this tap.

        The first result indexes the last two axes of the windows, whose rows are counted from ``rows.start``; the
        second indexes the last two axes of the images.
        """
        windows, pixels = [], []
        for axis, (tap, start, stop) in enumerate(((row, rows.start, rows.stop), (column, 0, columns))):
            step, first = self.strides[axis], tap * self.dilation[axis] - self.padding[axis][0]
            # in window i, the tap reads pixel i · step + first, which is inside the image for low ≤ i < high
            low = max(start, -(first // step))
            high = max(low, min(stop, (size[axis] - 1 - first) // step + 1))
            windows.append(slice(low - start, high - start))
            # an empty range must not end at −1, which means the last pixel
            pixels.append(slice(low * step + first, max(0, (high - 1) * step + first + 1), step))
        return (..., *windows), (..., *pixels)

    def along(self, axis: int) -> Window:
        """Return the window restricted to ``axis``; its size along the other axis is 1."""
        size, strides, dilation = [
            (both[0], 1) if axis == 0 else (1, both[1]) for both in (self.size, self.strides, self.dilation)
        ]
        padding = (self.padding[0], (0, 0)) if axis == 0 else ((0, 0), self.padding[1])
        return Window(size, strides, padding, dilation, self.ceil)

    def covered(self, rows: slice, height: int) -> slice:
        """Return the rows, in an image of ``height`` rows, that the windows in ``rows`` cover."""
        step, top = self.strides[0], self.padding[0][0]
        reach = self.dilation[0] * (self.size[0] - 1)
        return slice(max(0, rows.start * step - top), max(0, min(height, (rows.stop - 1) * step - top + reach + 1)))


def window_of(size: Any, axes: int, strides: Any, padding: Any, dilation: Any, ceil: bool = False) -> Window:
    """Return a window along ``axes`` axes.

    Each option is one number for all axes or one number for each axis; padding may also be one pair for each axis.
    """
    return Window(
        for_each(size, axes, "window"),
        for_each(strides, axes, "strides"),
        both_sides(padding, axes),
        for_each(dilation, axes, "dilation"),
        ceil,
    )


def for_each(value: Any, axes: int, what: str) -> Lengths:
    """Return one integer for each axis; ``value`` is one number for all axes, or a tuple with one per axis."""
    if type(value) is int:
        return (value,) * axes
    return tuple([as_integer(number, what) for number in _one_per_axis(value, axes, what)])


def both_sides(padding: Any, axes: int) -> Padding:
    """Return padding as (before, after) for each axis.

    ``padding`` is one number, one number for each axis, or one pair for each axis. For a single axis, (1, 2) is also
    accepted for ((1, 2),).
    """
    if type(padding) is int:
        return ((padding, padding),) * axes
    if axes == 1 and isinstance(padding, (tuple, list)) and len(padding) == 2:
        padding = (padding,)
    sides = [_one_per_axis(side, 2, "padding") for side in _one_per_axis(padding, axes, "padding")]
    return tuple([(as_integer(before, "padding"), as_integer(after, "padding")) for before, after in sides])


def _one_per_axis(value: Any, count: int, what: str) -> tuple[Any, ...]:
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
    if len(values) != count:
        raise OperandError(
            f"{what} {value!r}",
            rule="there must be one number" + (f" for all {count} axes, or one per axis" if count > 1 else ""),
            fix=f"{what}=1, or {what}={(1,) * count}",
        )
    return values
