"""Kernel of ``Conv2dImageGradient``: convolves the upstream gradient with reversed filters.

The textbook algorithm adds each upstream pixel to all pixels of its window. Windows overlap, so threads would add to
the same pixels in varying order. This kernel gathers instead: the gradient of a pixel is a sum over the taps that read
it. With stride s, these are every s-th tap, starting at a tap that depends on the pixel's position modulo s. All pixels
whose positions are equal modulo s form a *phase*, for which the sum is an ordinary convolution of stride 1 with every
s-th tap in reverse order (``conv_forward``). Inserting zeros into the upstream gradient instead would need s² times as
many multiplications.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from explorer.core.ir.tiles import Index, Tile
from explorer.core.types.tensor_type import Array, Shape
from explorer.ops.nn.kernels.conv_forward import ConvForwardPlan
from explorer.ops.nn.kernels.window import Window


class Phase(NamedTuple):
    """Pixels read by the same taps, or by none: every stride-th pixel, starting at an offset."""

    pixels: Index
    """index into the images (N, C, H, W)"""
    taps: tuple[slice, slice]
    """rows and columns of the filters, in reverse order"""
    convolving: ConvForwardPlan | None
    """convolution of the upstream gradient with these taps, or None for no taps, which give a zero gradient"""


class _Side(NamedTuple):
    size: int
    dilation: int
    padding: tuple[int, int]
    """(before, after); negative if the window begins inside the image"""


class ImageGradient(NamedTuple):
    """Tiling of the images' gradient: one convolution with stride 1 for each phase."""

    window: Window
    groups: int
    images: Shape
    """(N, C, H, W)"""
    filters: Shape
    """(O, C / groups, h, w)"""

    def phases(self) -> list[Phase]:
        """Return the phases with taps, and the parts of the images that no tap reads."""
        n, c, height, width = self.images
        upstream = (n, self.filters[0], *self.window.output(height, width))
        filters = c, self.filters[0] // self.groups
        phases = []
        every_column: list[tuple[slice, slice, _Side | None]] = [(slice(0, width), slice(0), None)]
        sides = self._along(1, upstream[3])
        for rows, i, row_side in self._along(0, upstream[2]):
            for columns, j, column_side in sides if row_side is not None else every_column:
                convolving = None
                if row_side is not None and column_side is not None:
                    window = Window(
                        (row_side.size, column_side.size),
                        (1, 1),
                        (row_side.padding, column_side.padding),
                        (row_side.dilation, column_side.dilation),
                    )
                    convolving = ConvForwardPlan(window, self.groups, upstream, (*filters, *window.size))
                phases.append(Phase((slice(0, n), slice(0, c), rows, columns), (i, j), convolving))
        return phases

    def _along(self, axis: int, upstream: int) -> list[tuple[slice, slice, _Side | None]]:
        """Return (pixels, taps, window) for each phase along ``axis``; the window is None if there are no taps."""
        size, stride, dilation = self.window.size[axis], self.window.strides[axis], self.window.dilation[axis]
        length, before = self.images[2 + axis], self.window.padding[axis][0]
        # Tap t reads pixel p if p + before − t · dilation is a multiple of the stride. Then tap t + stride / gcd reads
        # it too, and the upstream pixels of these two taps are dilation / gcd apart.
        common = math.gcd(stride, dilation)
        every, spacing = stride // common, dilation // common
        # among ``every`` consecutive taps, at most one reads a given pixel
        tapped = {(tap * dilation - before) % stride: tap for tap in range(min(size, every))}
        tapped = {phase: tapped[phase] for phase in sorted(tapped) if phase < length}
        phases: list[tuple[slice, slice, _Side | None]] = [
            (gap, slice(0), None) for gap in _gaps([*tapped], stride, length)
        ]
        for phase, first in tapped.items():
            pixels = slice(phase, length, stride)
            count = len(range(first, size, every))
            reach = (count - 1) * spacing
            # pad the upstream gradient so that its convolution gives exactly this phase; the padding is negative if the
            # first windows do not reach the phase
            front = reach - (phase + before - first * dilation) // stride
            after = len(range(phase, length, stride)) + reach - upstream - front
            last = first + (count - 1) * every
            # a negative stop would count from the end
            backwards = slice(last, None if first < every else first - every, -every)
            phases.append((pixels, backwards, _Side(count, spacing, (front, after))))
        return phases

    def pack(self, filters: Array) -> list[Array]:
        """Pack filters (O, C / groups, h, w) as one array (groups, h′ · w′ · O / groups, C / groups) for each phase."""
        o, c, h, w = filters.shape
        spacing = filters.reshape(self.groups, o // self.groups, c, h, w).transpose(0, 3, 4, 1, 2)
        parts = [np.ascontiguousarray(spacing[:, i, j]) for _, (i, j), _ in self.phases()]
        return [part.reshape(self.groups, math.prod(part.shape[1:4]), c) for part in parts]

    def workspace(self, itemsize: int) -> int:
        """Return the number of bytes of scratch memory that the largest tile needs."""
        # the pixels of a phase are one stride apart in the result, so BLAS cannot write them directly
        spread = self.window.strides != (1, 1)
        return max([phase.convolving.workspace(itemsize, spread) for phase in self.phases() if phase.convolving] or [0])

    def pieces(self, out: Array, upstream: Array, packed: list[Array]) -> list[Tile]:
        """Return the tiles that compute the gradient and write it into ``out``; ``pack`` returns ``packed``."""
        tiles = []
        for (pixels, _, convolving), matrices in zip(self.phases(), packed, strict=True):
            part = out[pixels]
            if convolving is None:
                tiles.append(Tile(pixels, partial(part.fill, 0)))
                continue
            for (n, c, rows, columns), compute in convolving.tiles(part, upstream, matrices):
                tiles.append(Tile((n, c, _within(pixels[2], rows), _within(pixels[3], columns)), compute))
        return tiles


def _gaps(tapped: list[int], stride: int, length: int) -> list[slice]:
    """Return slices of the pixels along an axis that no tap reads.

    There is one slice per phase or one per run of adjacent phases, whichever gives fewer, because strides much larger
    than the window leave many adjacent phases without taps.
    """
    phases = min(stride, length)
    ends = [-1, *tapped, phases]
    runs = [(last + 1, following) for last, following in pairwise(ends) if last + 1 < following]
    untapped = phases - len(tapped)
    if len(runs) * -(-length // stride) >= untapped:
        return [slice(phase, length, stride) for first, stop in runs for phase in range(first, stop)]
    return [
        slice(start + first, min(start + stop, length))
        for start in range(0, length, stride)
        for first, stop in runs
        if start + first < length
    ]


def _within(outer: slice, inner: slice) -> slice:
    """Compose two slices: return the slice that selects the same elements as ``[outer][inner]``."""
    # indexing a range composes slices exactly, including their steps
    selected = range(outer.stop)[outer][inner]
    return slice(selected.start, selected.stop, selected.step)
