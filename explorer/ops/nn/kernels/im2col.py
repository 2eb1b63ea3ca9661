"""Windows of images as rows of memory (im2col).

Windows are views of the images, or of a padded copy in scratch memory. The copy is (N, H, W, C), so that a window's row
is contiguous. Images may be stored with channels first or last; only their strides differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from explorer.core.ir.tiles import scratch
from explorer.core.types.tensor_type import Array, Shape
from explorer.ops.nn.kernels.window import Window


class Im2col(NamedTuple):
    """Windows that slide over images; ``columns`` is the number of windows in a row."""

    window: Window
    columns: int
    channels: int

    def windows(self, images: int, rows: int) -> Shape:
        """Return the shape (N, rows, W′, h, w, C) of all windows."""
        return images, rows, self.columns, *self.window.size, self.channels

    def slab(self, images: int, rows: int) -> Shape:
        """Return the shape (N, H, W, C) of the padded part of the images covered by ``rows`` rows of windows."""
        # the last window starts (count − 1) strides after the first, and extends dilation · (size − 1) pixels further
        size, strides, _, dilation, _ = self.window
        height, width = (
            (count - 1) * strides[axis] + dilation[axis] * (size[axis] - 1) + 1
            for axis, count in enumerate((rows, self.columns))
        )
        return images, height, width, self.channels

    def gathering(
        self,
        images: Array,
        n: slice,
        rows: slice,
        key: Hashable,
        scratch_types: tuple[tuple[Shape, Any], ...],
        views: Callable[..., tuple[Array, ...]],
    ) -> Callable[[], tuple[Array, ...]]:
        """Return a function that gathers all windows (N, rows, W′, h, w, C) and returns them with further views.

        The windows are a view of the images if these are stored with channels last and contain all windows, otherwise a
        view of a padded copy. ``views`` creates the further views from scratch arrays of the shapes and dtypes
        ``scratch_types``. All views are cached for each combination of windows, ``key`` and ``scratch_types``.
        """
        (row_step, column_step), (top, left) = self.window.strides, [sides[0] for sides in self.window.padding]
        shape, dtype = self.windows(n.stop - n.start, rows.stop - rows.start), images.dtype
        selected, first = images.transpose(0, 2, 3, 1)[n], rows.start * row_step - top

        def steps(s: Shape) -> Shape:
            dilated = [d * b for d, b in zip(self.window.dilation, s[1:3], strict=True)]
            return s[0], s[1] * row_step, s[2] * column_step, *dilated, s[3]

        key = self, shape, dtype, key, scratch_types
        slab_shape = self.slab(*shape[:2])
        inside = first >= 0 and first + slab_shape[1] <= selected.shape[1]
        inside = inside and left <= 0 and slab_shape[2] - left <= selected.shape[2]
        # a window's row is contiguous only if channels are adjacent
        if inside and selected.strides[3] == selected.itemsize:
            part = selected[:, first:, -left:]  # left ≤ 0, so the windows skip −left pixels
            windows = as_strided(part, shape, steps(part.strides), writeable=False)
            return lambda: (windows, *scratch(key, scratch_types, views))
        copies, zeros = padded(slab_shape, selected, first, -left)
        # the padded copy is allocated later, but its strides are known
        strides = steps(_dense(slab_shape, dtype.itemsize))

        def all_views(slab: Array, *others: Array) -> tuple[Array, ...]:
            return slab, np.ndarray(shape, dtype, slab, strides=strides), *views(*others)

        def gather() -> tuple[Array, ...]:
            # other tiles overwrite the same memory
            slab, *rest = scratch(("padded", key), ((slab_shape, dtype), *scratch_types), all_views)
            for region in zeros:
                slab[region] = 0
            for region, source in copies:
                slab[region] = source
            return tuple(rest)

        return gather


def drop_skipped_pixels(window: Window, images: Array) -> tuple[Window, Array]:
    """Drop the pixels that 1×1 windows skip; return the window with stride 1, and the remaining images (N, C, H, W)."""
    if window.size != (1, 1) or window.padding != ((0, 0), (0, 0)):
        return window, images
    row_step, column_step = window.strides
    return window._replace(strides=(1, 1)), images[:, :, ::row_step, ::column_step]


def split_groups(windows: Array, groups: int) -> Array:
    """View windows (N, rows, W′, h, w, C) as (groups, N, rows, W′, h, w, C / groups)."""
    depth, step = windows.shape[5] // groups, windows.strides[5]
    shape = *windows.shape[:5], groups, depth
    return as_strided(windows, shape, (*windows.strides[:5], step * depth, step)).transpose(5, 0, 1, 2, 3, 4, 6)


def pixels(array: Array) -> Array | None:
    """View images (N, H, W, C) as (1, pixels, C) or (N, pixels, C); return None if this needs a copy."""
    n, h, w, c = array.shape
    # rows must be contiguous; an axis of one element may have any stride
    if h > 1 and w > 1 and array.strides[1] != w * array.strides[2]:
        return None
    step = array.strides[2] if w > 1 else array.strides[1]
    if n == 1 or h * w == 1 or array.strides[0] == h * w * step:
        return array.reshape(1, n * h * w, c, copy=False)
    return array.reshape(n, h * w, c, copy=False)


def _dense(shape: Shape, itemsize: int) -> Shape:
    return tuple([itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))])


def padded(shape: Shape, images: Array, top: int, left: int) -> tuple[list[tuple[Any, Array]], list[Any]]:
    """Return the copies (region, source) and the regions of zeros that fill a padded copy of ``images``.

    The copy has ``shape`` (N, H, W, C) and begins at pixel (top, left) of the images.
    """
    height, width = images.shape[1:3]
    up, row_step = min(max(-top, 0), shape[1]), max(min(height - top, shape[1]), 0)
    before, after = min(max(-left, 0), shape[2]), max(min(width - left, shape[2]), 0)
    if up >= row_step or before >= after:
        return [], [...]
    every, rows = slice(None), slice(up, row_step)
    borders = [
        (every, slice(0, up)),
        (every, slice(row_step, shape[1])),
        (every, rows, slice(0, before)),
        (every, rows, slice(after, shape[2])),
    ]
    zeros = [region for region in borders if region[-1].start < region[-1].stop]
    source = images[:, top + up : top + row_step, left + before : left + after]
    inside = every, rows, slice(before, after)
    if images.strides[3] == images.itemsize:
        return [(inside, source)], zeros
    # Copy channel by channel, so that NumPy's inner loop reads contiguous memory.
    return [((*inside, channel), source[..., channel]) for channel in range(shape[3])], zeros
