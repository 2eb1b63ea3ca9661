"""Convolution as one matrix product of unfolded images, for any device whose arrays implement NumPy's functions.

Unfolded images need h · w times the images' memory, because a pixel occurs once for each window that covers it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from explorer.core.types.tensor_type import Array, Shape
from explorer.ops.nn.kernels.window import Window


def forward(out: Array, images: Array, filters: Array, window: Window, groups: int) -> Array:
    """Convolve images (N, C, H, W) with filters (O, C / groups, h, w) into ``out`` (N, O, H′, W′)."""
    weights = filters.reshape(groups, filters.shape[0] // groups, math.prod(filters.shape[1:]))
    product = weights @ _unfolded(images, window, out.shape[2:], groups)
    np.copyto(out, product.reshape(out.shape))
    return out


def image_gradient(out: Array, g: Array, filters: Array, window: Window, groups: int) -> Array:
    """Compute the images' gradient ``out`` (N, C, H, W) from the upstream gradient ``g`` and the filters.

    ``g`` is (N, O, H′, W′).
    """
    weights = filters.reshape(groups, filters.shape[0] // groups, math.prod(filters.shape[1:]))
    product = weights.swapaxes(1, 2) @ _by_group(g, groups)
    unfolded = product.reshape(*out.shape[:2], *window.size, *g.shape[2:])
    out.fill(0)
    for row, column, windows, pixels in _taps(window, out.shape, g.shape):
        out[pixels] += unfolded[:, :, row, column][windows]
    return out


def filter_gradient(out: Array, g: Array, images: Array, window: Window, groups: int) -> Array:
    """Compute the filters' gradient ``out`` (O, C / groups, h, w) from the upstream gradient ``g`` and the images.

    ``g`` is (N, O, H′, W′).
    """
    unfolded = _unfolded(images, window, g.shape[2:], groups)
    product = _by_group(g, groups) @ unfolded.swapaxes(2, 3)
    np.copyto(out, product.sum(axis=0).reshape(out.shape))
    return out


def _by_group(g: Array, groups: int) -> Array:
    """Return ``g`` (N, O, H′, W′) reshaped to (N, groups, O / groups, H′ · W′)."""
    n, channels, rows, columns = g.shape
    return g.reshape(n, groups, channels // groups, rows * columns)


def _unfolded(images: Array, window: Window, windows: Shape, groups: int) -> Array:
    """Return the pixels of all windows in an array (N, groups, C / groups · h · w, H′ · W′)."""
    n, channels = images.shape[:2]
    unfolded = np.zeros((n, channels, *window.size, *windows), images.dtype, like=images)
    for row, column, inside, pixels in _taps(window, images.shape, (n, channels, *windows)):
        unfolded[:, :, row, column][inside] = images[pixels]
    taps = channels // groups * window.size[0] * window.size[1]
    return unfolded.reshape(n, groups, taps, windows[0] * windows[1])


def _taps(window: Window, images: Shape, windows: Shape) -> Iterator[tuple[int, int, Any, Any]]:
    """Yield (row, column, windows, pixels) for each tap.

    The last two are indices of the windows whose tap is inside the image, and of the pixels that it reads.
    """
    for row, column in itertools.product(range(window.size[0]), range(window.size[1])):
        yield row, column, *window.overlap(row, column, (images[2], images[3]), slice(0, windows[2]), windows[3])
