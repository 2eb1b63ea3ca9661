"""Base classes of pooling operations and their gradients, computed in bands of rows.

A tap is a position (row, column) within a window. One tap's pixels in all windows of a tile are a strided view, so a
tile needs one ufunc call per tap, however many windows it has. A view of all windows (``as_strided``) would need no
loop over taps, but NumPy reduces short inner axes slowly.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np

from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.operation_examples import Example, real
from explorer.core.ir.tiles import TILE_BYTES, Index, Tile, compute, even, scratch
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType
from explorer.ops.base import reshape
from explorer.ops.nn.kernels.window import Lengths, Padding, Pair, Window

NO_PADDING: Padding = ((0, 0), (0, 0))
WINDOWS = (
    Example(real(2, 3, 4, 6), size=(2, 2), strides=(2, 2)),
    Example(real(1, 2, 5, 5), size=(3, 2), strides=(2, 1), padding=((1, 1), (0, 0))),
    Example(real(1, 1, 5, 6), size=(2, 2), strides=(2, 2), ceil=True),
)


class WindowOperation(Operation, abstract=True):
    """Base class of pooling operations with windows and their gradients."""

    family = "reduction"
    size: Lengths
    strides: Lengths
    padding: Padding = NO_PADDING
    dilation: Lengths = (1, 1)
    ceil: bool = False
    examples: ClassVar[tuple[Example, ...]] = WINDOWS

    @property
    def window(self) -> Window:
        """Window of the pooling."""
        return Window(self.size, self.strides, self.padding, self.dilation, self.ceil)

    @property
    def taps(self) -> list[Pair]:
        """Row and column of each tap, row by row."""
        return list(itertools.product(range(self.size[0]), range(self.size[1])))

    def first_maximum_masks(self, images: Array, largest: Array, rows: slice) -> Iterator[tuple[int, int, Any, Array]]:
        """Yield (row, column, windows, mask) for each tap.

        The mask is True for windows whose first maximum is at this tap; ``largest`` contains the windows' maxima.
        """
        # ``free`` is True for windows whose maximum was not found yet; NaN is tested separately, as NaN != NaN
        free, missing = np.ones_like(largest, bool), largest != largest
        has_nan = bool(missing.any())
        for row, column in self.taps:
            windows, pixels = self.window.overlap(row, column, images.shape[2:], rows, largest.shape[3])
            chosen = images[pixels] == largest[windows]
            if has_nan:
                chosen |= (images[pixels] != images[pixels]) & missing[windows]
            left = free[windows]
            chosen &= left
            left ^= chosen
            yield row, column, windows, chosen

    def result_shape(self, x: TensorType) -> Shape:
        """Return (N, C, H′, W′); raise OperandError if no window fits."""
        if x.rank != 4:
            raise self.refuse((x,), "images must be (N, C, H, W)", "add a batch axis with ex.expand_dims(x, 0)")
        problem = self.window.problem()
        if problem:
            raise self.refuse((x,), problem)
        for size, dilation, sides in zip(self.size, self.dilation, self.padding, strict=True):
            # a window that contains only padding would have no maximum or mean; other frameworks have the same rule
            if 2 * max(sides) > dilation * (size - 1) + 1:
                raise self.refuse(
                    (x,), f"padding {max(sides)} must be at most half of the window, so that no window is only padding"
                )
        rows, columns = self.window.output(x.shape[2], x.shape[3])
        if rows < 1 or columns < 1:
            raise self.refuse((x,), f"the window {self.size[0]}×{self.size[1]} must fit into the padded image")
        return (*x.shape[:2], rows, columns)


class Pooling(WindowOperation, abstract=True):
    """Base class of pooling operations whose only operand is the images."""

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        # images are pooled independently, so merge all batch elements' images into one batch
        merged_result = self(reshape(x, (size * x.shape[1], *x.shape[2:])))
        return reshape(merged_result, (size, x.shape[1], *merged_result.shape[1:]))

    def flops(self, result: AnyType, *types: TensorType) -> int:
        assert isinstance(result, TensorType)
        return result.size * self.size[0] * self.size[1]


class PoolingForward(Pooling, abstract=True):
    """Base class of pooling operations that combine pixels tap by tap; channels may be first or last."""

    follows_format = True

    def compute_tile(self, out: Array, x: Array, index: Index) -> None:
        """Compute the tile of ``out`` at ``index``."""
        raise NotImplementedError

    def kernel(self, out: Array, x: Array) -> Array:
        compute(self.tiles(out, None, x))
        return out

    def tiles(self, out: Array, prepared: None, x: Array) -> list[Tile]:
        return [Tile(index, partial(self.compute_tile, out, x, index)) for index in _bands(out.shape, out.itemsize)]

    def gather(self, combine: np.ufunc, out: Array, x: Array, index: Index) -> None:
        """Combine each window's pixels, without padding, with ``combine``; write the results into ``out``."""
        part, images = out[index], x[index[0]]
        for row, column in self.taps:
            windows, pixels = self.window.overlap(row, column, (x.shape[2], x.shape[3]), index[2], out.shape[3])
            into = part[windows]
            combine(into, images[pixels], out=into)

    def gather_by_axis(self, combine: np.ufunc, identity: Any, out: Array, x: Array, index: Index) -> None:
        """Combine each window's pixels along rows, then along columns, which needs h + w calls instead of h · w.

        The result of ``combine`` must not depend on the order of elements; ``identity`` is its neutral element.
        """
        part, (n, _, band, _) = out[index], index
        part.fill(identity)
        rows = self.window.covered(band, x.shape[2])
        if not self._is_faster_by_axis(band, rows):
            return self.gather(combine, out, x, index)
        images = x[n, :, rows]
        along_rows = self._scratch_like(part, images.shape[2])
        along_rows.fill(identity)
        column_window, row_window = self.window.along(1), self.window.along(0)
        for column in range(self.size[1]):
            windows, pixels = column_window.overlap(
                0, column, images.shape[2:], slice(0, images.shape[2]), part.shape[3]
            )
            into = along_rows[windows]
            combine(into, images[pixels], out=into)
        # the combined rows form an image whose first row is rows.start
        row_window = row_window._replace(padding=((self.padding[0][0] + rows.start, 0), (0, 0)))
        for row in range(self.size[0]):
            windows, pixels = row_window.overlap(row, 0, along_rows.shape[2:], band, part.shape[3])
            into = part[windows]
            combine(into, along_rows[pixels], out=into)
        return None

    def _is_faster_by_axis(self, band: slice, rows: slice) -> bool:
        (height, width), results = self.size, int(band.stop - band.start)
        return height * width * results > width * int(rows.stop - rows.start) + height * results

    @staticmethod
    def _scratch_like(part: Array, rows: int) -> Array:
        """Return scratch memory (N, C, rows, W′) with the same layout as ``part``."""
        n, c, _, columns = part.shape
        last = part.strides[1] < part.strides[3]
        shape = (n, rows, columns, c) if last else (n, c, rows, columns)

        def as_channels_first(memory: Array) -> Array:
            return memory.transpose(0, 3, 1, 2) if last else memory

        memory: Array = scratch(
            ("pooled along rows", shape, part.dtype, last), ((shape, part.dtype),), as_channels_first
        )
        return memory

    def scratch_elements(self, x: Shape, result: Shape, itemsize: int) -> int:
        """Return the number of scratch elements that the largest tile needs if pixels are combined by axis."""
        covered = [
            (n, rows)
            for n, _, band, _ in _bands(result, itemsize)
            for rows in (self.window.covered(band, x[2]),)
            if self._is_faster_by_axis(band, rows)
        ]
        return max([(n.stop - n.start) * (rows.stop - rows.start) for n, rows in covered], default=0) * x[1] * result[3]


class PoolingBackward(WindowOperation, abstract=True):
    """Base class of pooling gradients, which sum the contributions of all windows that overlap a band of image rows."""

    follows_format = True

    def compute_tile(self, out: Array, index: Index, *operands: Any, **_: Any) -> None:
        """Compute the tile of ``out`` at ``index``."""
        raise NotImplementedError

    def kernel(self, out: Array, *operands: Any, **_: Any) -> Array:
        compute(self.tiles(out, None, *operands))
        return out

    def tiles(self, out: Array, prepared: None, *operands: Any, **_: Any) -> list[Tile]:
        return [
            Tile(index, partial(self.compute_tile, out, index, *operands)) for index in _bands(out.shape, out.itemsize)
        ]

    def overlapping_rows(self, band: slice, rows: int) -> slice:
        """Return the rows of windows, out of ``rows`` rows, that overlap the image rows ``band``."""
        # window r covers the rows from r · step − top through r · step − top + dilation · (size − 1). Solve for r at
        # both ends of the band; ⌈a / b⌉ is written −(−a // b).
        top, step = self.padding[0][0], self.strides[0]
        first = -((self.dilation[0] * (self.size[0] - 1) - top - band.start) // step)
        last = min(rows, (band.stop - 1 + top) // step + 1)
        return slice(
            min(max(0, first), max(0, last)), max(0, last)
        )  # if no window overlaps the band, the slice is empty, not negative

    def within(self, band: slice) -> Window:
        """Return the window for images that consist of the rows in ``band``."""
        (top, bottom), sides = self.padding
        # the first row of the band becomes row 0, as if band.start rows were padding
        return self.window._replace(padding=((top + band.start, bottom), sides))

    def max_overlapping_windows(self, shape: Shape, windows: Shape, itemsize: int) -> int:
        """Return the maximum number of windows, summed over channels, that overlap one tile."""
        rows, columns = windows[2:]
        return max(
            [
                (n.stop - n.start) * shape[1] * (reach.stop - reach.start) * columns
                for n, _, band, _ in _bands(shape, itemsize)
                for reach in (self.overlapping_rows(band, rows),)
            ],
            default=0,
        )


def _bands(shape: Shape, itemsize: int) -> list[Index]:
    """Divide images of ``shape`` (N, C, H, W) into groups of images, or into bands of rows of single images."""
    n, c, rows, columns = shape
    block = max(1, TILE_BYTES // max(1, c * columns * itemsize))
    return [
        (images, slice(0, c), band, slice(0, columns))
        for images in even(n, block // max(1, rows))
        for band in even(rows, block)
    ]
