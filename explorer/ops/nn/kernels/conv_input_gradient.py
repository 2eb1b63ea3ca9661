"""Kernel of a convolution's adjoint in its images: convolutions of the upstream gradient with reversed filters.

``Conv2dImageGradient`` runs it, and with it transposed convolutions. The textbook way scatters each upstream pixel's
contribution over its window: windows overlap, so that threads would add to the same pixels, in an order that varies.
The other way reads: the gradient of a pixel is a sum over the taps that met it. With stride s only every s-th tap meets
a given pixel, and which ones depends on the pixel's position modulo s. The pixels of one such position are a *phase*;
over a phase the sum is an ordinary convolution of stride 1 with every s-th tap in reverse, and ``conv_forward``
computes it. Dilating the upstream gradient with zeros instead would multiply s² times as many numbers.
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
    """Pixels of an image that meet the same taps of windows: every stride-th, from an offset on; or meet none."""

    place: Index
    """elements of the images (N, C, H, W)"""
    taps: tuple[slice, slice]
    """rows and columns of the filters, from the last to the first"""
    convolving: ConvForwardPlan | None
    """convolution of the upstream gradient with these taps; None without taps, where the gradient is zero"""


class _Side(NamedTuple):
    """Window along one axis."""

    size: int
    dilation: int
    padding: tuple[int, int]
    """negative if the window begins inside the image"""


class ImageGradient(NamedTuple):
    """Tiling of a convolution's adjoint in its images: for each phase a convolution of stride 1."""

    window: Window
    groups: int
    images: Shape
    """(N, C, H, W)"""
    filters: Shape
    """(O, C / groups, h, w)"""

    def phases(self) -> list[Phase]:
        """Return the phases with taps, and parts of the images that no tap meets."""
        n, c, height, width = self.images
        upstream = (n, self.filters[0], *self.window.output(height, width))
        filters = c, self.filters[0] // self.groups
        phases = []
        every_column: list[tuple[slice, slice, _Side | None]] = [(slice(0, width), slice(0), None)]
        sides = self._along(1, upstream[3])
        for rows, i, down in self._along(0, upstream[2]):
            for columns, j, across in sides if down is not None else every_column:
                convolving = None
                if down is not None and across is not None:
                    window = Window(
                        (down.size, across.size),
                        (1, 1),
                        (down.padding, across.padding),
                        (down.dilation, across.dilation),
                    )
                    convolving = ConvForwardPlan(window, self.groups, upstream, (*filters, *window.size))
                phases.append(Phase((slice(0, n), slice(0, c), rows, columns), (i, j), convolving))
        return phases

    def _along(self, axis: int, upstream: int) -> list[tuple[slice, slice, _Side | None]]:
        """Return for each phase along an axis its pixels, its taps, and its window if it has taps."""
        size, stride, dilation = self.window.size[axis], self.window.strides[axis], self.window.dilation[axis]
        length, before = self.images[2 + axis], self.window.padding[axis][0]
        # tap t meets pixel p if p + before − t · dilation is a multiple of the stride: such taps repeat every stride /
        # gcd, and the windows that they belong to lie dilation / gcd apart
        common = math.gcd(stride, dilation)
        every, apart = stride // common, dilation // common
        # at most one among `every` consecutive taps solves the congruence
        tapped = {(tap * dilation - before) % stride: tap for tap in range(min(size, every))}
        tapped = {phase: tapped[phase] for phase in sorted(tapped) if phase < length}
        phases: list[tuple[slice, slice, _Side | None]] = [
            (gap, slice(0), None) for gap in _gaps([*tapped], stride, length)
        ]
        for phase, first in tapped.items():
            place = slice(phase, length, stride)
            count = len(range(first, size, every))
            reach = (count - 1) * apart
            # padding of the upstream gradient that makes its convolution give exactly this phase's pixels; negative
            # where the first windows never reach the phase
            front = reach - (phase + before - first * dilation) // stride
            behind = len(range(phase, length, stride)) + reach - upstream - front
            last = first + (count - 1) * every
            # a negative stop would count from the end
            backwards = slice(last, None if first < every else first - every, -every)
            phases.append((place, backwards, _Side(count, apart, (front, behind))))
        return phases

    def pack(self, filters: Array) -> list[Array]:
        """Pack for each phase the filters (O, C / groups, h, w) as matrices (groups, h′ · w′ · O / groups, C /
        groups)."""
        o, c, h, w = filters.shape
        apart = filters.reshape(self.groups, o // self.groups, c, h, w).transpose(0, 3, 4, 1, 2)
        parts = [np.ascontiguousarray(apart[:, i, j]) for _, (i, j), _ in self.phases()]
        return [part.reshape(self.groups, math.prod(part.shape[1:4]), c) for part in parts]

    def workspace(self, itemsize: int) -> int:
        """Return the bytes of scratch memory that the largest tile takes."""
        # a phase's pixels lie a stride apart in the result, where BLAS cannot write them
        spread = self.window.strides != (1, 1)
        return max([phase.convolving.workspace(itemsize, spread) for phase in self.phases() if phase.convolving] or [0])

    def pieces(self, out: Array, upstream: Array, packed: list[Array]) -> list[Tile]:
        """Return the tiles of the gradient in ``out``; ``packed`` are the filters from ``pack``."""
        tiles = []
        for (place, _, convolving), matrices in zip(self.phases(), packed, strict=True):
            part = out[place]
            if convolving is None:
                tiles.append(Tile(place, partial(part.fill, 0)))
                continue
            for (n, c, rows, columns), compute in convolving.tiles(part, upstream, matrices):
                tiles.append(Tile((n, c, _within(place[2], rows), _within(place[3], columns)), compute))
        return tiles


def _gaps(tapped: list[int], stride: int, length: int) -> list[slice]:
    """Return the pixels along an axis whose phases are not among ``tapped``, phase by phase or run by run.

    A stride far beyond the window leaves many phases without taps, side by side: few runs.
    """
    phases = min(stride, length)
    ends = [-1, *tapped, phases]
    runs = [(last + 1, following) for last, following in pairwise(ends) if last + 1 < following]
    without = phases - len(tapped)
    if len(runs) * -(-length // stride) >= without:
        return [slice(phase, length, stride) for first, stop in runs for phase in range(first, stop)]
    return [
        slice(start + first, min(start + stop, length))
        for start in range(0, length, stride)
        for first, stop in runs
        if start + first < length
    ]


def _within(outer: slice, inner: slice) -> slice:
    """Return the elements ``inner`` of the elements ``outer``."""
    # Python's ranges compose slices exactly, steps included
    picked = range(outer.stop)[outer][inner]
    return slice(picked.start, picked.stop, picked.step)
