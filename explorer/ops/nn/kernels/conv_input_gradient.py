"""Kernel of ``Conv2dImageGradient``, the adjoint of convolution for images: convolves the upstream gradient with
reversed filters.

Transposed convolutions use it too. The textbook algorithm adds each upstream pixel to all pixels of its window. Windows
overlap, so threads would add to the same pixels in varying order. This kernel gathers instead: the gradient of a pixel
is a sum over the taps that read the pixel. With stride s, only every s-th tap reads it; the first of these taps depends
on the pixel's position modulo s. All pixels whose positions are equal modulo s form a *phase*. For one phase, the sum
is an ordinary convolution of stride 1 with every s-th tap, in reverse order, and ``conv_forward`` computes it.
Inserting zeros into the upstream gradient instead would need s² times as many multiplications.
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
    """Pixels of an image that are read by the same taps, or by no tap: every stride-th pixel, starting at an offset."""

    pixels: Index
    """index into the images (N, C, H, W)"""
    taps: tuple[slice, slice]
    """rows and columns of the filters, in reverse order"""
    convolving: ConvForwardPlan | None
    """convolution of the upstream gradient with these taps; None if there are no taps, so that the gradient is zero"""


class _Side(NamedTuple):
    """Window along one axis."""

    size: int
    dilation: int
    padding: tuple[int, int]
    """(before, after); negative if the window begins inside the image"""


class ImageGradient(NamedTuple):
    """Tiling of the adjoint of convolution for images: one convolution with stride 1 for each phase."""

    window: Window
    groups: int
    images: Shape
    """(N, C, H, W)"""
    filters: Shape
    """(O, C / groups, h, w)"""

    def phases(self) -> list[Phase]:
        """Return the phases that have taps, and the parts of the images that no tap reads."""
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
        """Return, for each phase along ``axis``, its pixels, its taps, and its window or None if it has no taps."""
        size, stride, dilation = self.window.size[axis], self.window.strides[axis], self.window.dilation[axis]
        length, before = self.images[2 + axis], self.window.padding[axis][0]
        # tap t reads pixel p if p + before − t · dilation is a multiple of the stride. If tap t reads the pixel, so
        # does tap t + stride / gcd, and their upstream pixels are dilation / gcd apart.
        common = math.gcd(stride, dilation)
        every, spacing = stride // common, dilation // common
        # among ``every`` consecutive taps, at most one satisfies this condition
        tapped = {(tap * dilation - before) % stride: tap for tap in range(min(size, every))}
        tapped = {phase: tapped[phase] for phase in sorted(tapped) if phase < length}
        phases: list[tuple[slice, slice, _Side | None]] = [
            (gap, slice(0), None) for gap in _gaps([*tapped], stride, length)
        ]
        for phase, first in tapped.items():
            pixels = slice(phase, length, stride)
            count = len(range(first, size, every))
            reach = (count - 1) * spacing
            # pad the upstream gradient so that its convolution gives exactly the pixels of this phase; the padding is
            # negative if the first windows do not reach the phase
            front = reach - (phase + before - first * dilation) // stride
            after = len(range(phase, length, stride)) + reach - upstream - front
            last = first + (count - 1) * every
            # a negative stop would count from the end
            backwards = slice(last, None if first < every else first - every, -every)
            phases.append((pixels, backwards, _Side(count, spacing, (front, after))))
        return phases

    def pack(self, filters: Array) -> list[Array]:
        """Pack filters (O, C / groups, h, w) as one matrix for each phase.

        The matrices are (groups, h′ · w′ · O / groups, C / groups).
        """
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
        """Return the tiles that compute the gradient and write it into ``out``.

        ``packed`` is the result of ``pack``.
        """
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
    """Return slices of the pixels along an axis that belong to phases without taps.

    If the stride is much larger than the window, many adjacent phases have no taps. The slices are therefore one for
    each phase, or one for each run of adjacent phases, whichever gives fewer.
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
    """Return the slice that selects the elements ``inner`` of the elements ``outer``."""
    # indexing a Python range composes slices exactly, including their steps
    selected = range(outer.stop)[outer][inner]
    return slice(selected.start, selected.stop, selected.step)
