"""C code of convolutions whose result is stored channel by channel, with the elementwise operations on it.

Such a convolution is a product of filters and windows: the rows are the filters, and the columns are the windows. A
band of rows of windows is computed at once, from a copy of the pixels that it covers, with padding, channel by channel.
In the copy, the pixels that adjacent windows read are adjacent numbers, and so are the pixels of windows in the next
row, after some numbers whose sums are not used. With strides, the rows and columns that have the same remainder are
together. So a tile's columns are adjacent numbers at an offset in the copy for each pixel of the window.

The sums of some filters for a band stay in the cache for the other operations. They are added in the order of the
pixels first and of the channels second. Threads divide the images, the groups of channels and the bands, and if there
are few, also the filters.
"""

from __future__ import annotations

import math
import re
from functools import partial
from typing import NamedTuple

from explorer.ops.nn.conv import Conv2d
from explorer.ops.nn.conv_winograd import WinogradConv2d
from explorer.ops.nn.kernels.window import Window
from explorer.plan.codegen.elements import TYPES
from explorer.plan.codegen.indexing import distances
from explorer.plan.codegen.kernel_code import PIXEL_BY_PIXEL, KernelCode, KernelSpec, OperandCopy
from explorer.plan.codegen.kernel_text import KernelText, counted
from explorer.plan.codegen.operands import Operands
from explorer.plan.codegen.tiling import BAND_BYTES, BLOCK_BYTES, ELEMENT, PARTS, WHOLE_ROWS
from explorer.plan.codegen.values import Values

_TAKEN = frozenset(
    re.findall(
        r"\w+",
        "part image group left right top bottom band sums offsets tile numbers channel row position copied least ROWS",
    )
)
"""identifiers that the code defines"""
_ROW_BY_ROW = (0, 1, 2, 3)
_CHANNELS_LAST = (0, 2, 3, 1)
"""order of the axes of filters (O, C, h, w) in the copy that the code reads"""
_SUMS = 1 << 13
"""maximum number of bytes of the sums of a filter for a band, unless a row of windows has more"""
_FEW = 4
"""minimum number of windows, and of filters of one pixel: for fewer, BLAS is faster, since it reads each number once"""
_WINOGRAD = (128, 784)
"""numbers of channels and windows from which on Winograd's method is faster in NumPy than all products in C"""


class _Band(NamedTuple):
    """Copy of the pixels that some rows of windows cover, for each channel."""

    rows: int
    """number of rows of windows"""
    phases: tuple[int, int]
    """number of phases of rows and of columns that the windows cover: those with the same remainder by the stride"""
    lines: int
    """number of rows in a phase"""
    columns: int
    """number of columns in a phase"""
    block: int
    """number of columns in a block"""
    across: int
    """number of windows in a row"""

    @property
    def plane(self) -> int:
        """Distance of two channels: an odd number of blocks, so that they are in different sets of the cache."""
        return (-(-math.prod(self.phases) * self.lines * self.columns // self.block) | 1) * self.block

    @property
    def length(self) -> int:
        """Number of adjacent sums of a filter, a multiple of a block."""
        return -(-((self.rows - 1) * self.columns + self.across) // self.block) * self.block

    def offsets(self, window: Window) -> list[int]:
        """Return the offset of each pixel of the first window in a channel."""
        (h, w), (down, across), (gap_down, gap_across) = window.size, window.strides, window.dilation
        offsets = []
        for row in range(0, h * gap_down, gap_down):
            for column in range(0, w * gap_across, gap_across):
                phase = row % down * self.phases[1] + column % across
                offsets.append((phase * self.lines + row // down) * self.columns + column // across)
        return offsets


def _band(window: Window, rows: int, across: int, block: int) -> _Band:
    """Return the band of some rows of windows."""
    last = [gap * (size - 1) for gap, size in zip(window.dilation, window.size, strict=True)]
    down, right = [min(step, position + 1) for position, step in zip(last, window.strides, strict=True)]
    lines, columns = rows + last[0] // window.strides[0], across + last[1] // window.strides[1]
    return _Band(rows, (down, right), lines, columns, block, across)


def planes_code(kernel: KernelSpec) -> KernelCode | None:
    """Return the C code of a convolution stored channel by channel; None if BLAS computes it.

    BLAS computes convolutions with few windows or filters, of which a row of windows covers more pixels than fit into
    the cache, or with many channels by Winograd's method. With fewer channels, the code computes all products instead.
    """
    anchor = kernel.nodes[0]
    operation, (_, filters) = anchor.operation, kernel.operands(anchor)
    if not isinstance(operation, Conv2d) or tuple(kernel.order) != _ROW_BY_ROW:
        return None
    if filters.shape[:2] == (operation.groups, 1):  # depthwise (windows.py)
        return None
    window = operation.window(filters.shape)
    rows, across = anchor.shape[2:]
    windows, least = rows * across, min(filters.shape[:2])
    if windows < _FEW or (math.prod(window.size) == 1 and filters.shape[0] < _FEW):
        return None
    if isinstance(operation, WinogradConv2d) and least >= _WINOGRAD[0] and windows >= _WINOGRAD[1]:
        return None
    band = _largest_band(window, (rows, across), filters.shape[1], anchor.dtype.itemsize)
    return None if band is None else _Writer(kernel, window, band).code()


def _largest_band(window: Window, windows: tuple[int, int], channels: int, itemsize: int) -> _Band | None:
    """Return the largest of equal bands that fit into the cache; None if a row of windows does not."""
    rows, across = windows
    for count in range(1, rows + 1):
        band = _band(window, -(-rows // count), across, BLOCK_BYTES // itemsize)
        has_few_sums = band.length * itemsize <= _SUMS or band.rows == 1
        if has_few_sums and channels * band.plane * itemsize <= BAND_BYTES:
            return band
    return None


class _Writer:
    """Writes the code of one convolution."""

    def __init__(self, kernel: KernelSpec, window: Window, band: _Band) -> None:
        self._kernel, self._window, self._band = kernel, window, band
        self._anchor, self._result = kernel.nodes[0], kernel.result
        self._images, self._filters = kernel.operands(self._anchor)
        assert isinstance(self._anchor.operation, Conv2d)
        self._groups = self._anchor.operation.groups
        self._values = Values(kernel, _TAKEN)
        self._type = TYPES[self._anchor.dtype]
        count, channels, rows, _ = self._anchor.shape
        self._number = count * self._groups
        """number of groups of all images"""
        self._rows = channels // self._groups
        """number of filters in a group"""
        self._bands = -(-rows // band.rows)
        """number of bands of an image"""
        few = self._number * self._bands < PARTS
        self._section = -(-self._rows // (PARTS * WHOLE_ROWS)) * WHOLE_ROWS if few else self._rows
        """number of filters that a part computes"""
        self._sections = -(-self._rows // self._section)
        """number of sections into which threads divide the filters of a group"""
        self._is_packed = math.prod(window.size) > 1 and self._filters.shape[1] > 1
        """whether the filters are passed as a copy; otherwise, the copy would be the same"""
        order = PIXEL_BY_PIXEL if self._images.uid in kernel.channels_last else _ROW_BY_ROW
        factors = {
            self._images.uid: distances(self._images.shape, order),
            self._filters.uid: () if self._is_packed else distances(self._filters.shape, _ROW_BY_ROW),
        }
        self._operands = Operands(kernel, self._values.reads, factors)
        self._text = KernelText(kernel, self._title(), self._values, self._operands.is_array)

    def code(self) -> KernelCode:
        """Return the code."""
        text, band, kind, reads = self._text, self._band, self._type, self._values.reads
        depth, rows = self._filters.shape[1], self._anchor.shape[2]
        offsets = band.offsets(self._window)
        text.add(f"static const int64_t offsets[{len(offsets)}] = {{{', '.join(map(str, offsets))}}};")
        text.add(f"{kind} band[{depth} * {band.plane} + {band.block}], sums[ROWS * {band.length}];")
        if self._sections > 1:
            text.add("int64_t copied = -1;")
        text.loop("part", "stop", "start")
        self._find_part()
        text.open(f"for (int64_t tile = {self._left}; tile < {self._right}; tile += ROWS)")
        text.add(f"const {kind} *numbers[ROWS];")
        size = len(offsets) * depth
        text.add(f"windows_{kind}(numbers, {self._group_filters}, tile, {self._right}, {self._rows}, 0, {size});")
        sizes = f"{len(offsets)}, offsets, {depth}, {band.plane}"
        text.compute(self._anchor, f"filters_{kind}(sums, {band.length}, numbers, band, {sizes});")
        text.loop("channel", f"least(tile + ROWS, {self._right})", "tile")
        text.loop("row", "bottom" if self._bands > 1 else rows, "top" if self._bands > 1 else 0)
        channel = f"({self._index} * {self._rows} + channel)" if self._number > 1 else "channel"
        text.add(f"const int64_t position = {channel} * {rows} + row;")
        self._finish()
        length = self._number * self._bands * self._sections
        work = self._anchor.tensor_type.size * size // ELEMENT
        index = [read.uid for read in reads].index(self._filters.uid)
        return KernelCode(
            self._kernel.name,
            text.ended(),
            text.lines,
            reads,
            (*self._operands.strides, distances(self._result.shape, _ROW_BY_ROW)),
            length,
            max(1, work // length),
            packed=(OperandCopy(index, _CHANNELS_LAST),) if self._is_packed else (),
            is_product=True,
        )

    def _title(self) -> str:
        following = self._kernel.nodes[1:]
        others = f" and {counted(following)}" if following else ""
        depth, windows = math.prod(self._filters.shape[1:]), math.prod(self._anchor.shape[2:])
        times = f"{self._number} times " if self._number > 1 else ""
        sizes = f"{times}{self._rows}×{depth} and {depth}×{windows}"
        name = self._anchor.operation.name
        if isinstance(self._anchor.operation, WinogradConv2d):
            name += ", without Winograd's method,"
        return f"{name} as a product of {sizes} numbers{others}"

    # -- parts -------------------------------------------------------------------------------------------------------

    @property
    def _index(self) -> str:
        """Variable that counts the groups of all images."""
        return "image" if self._groups == 1 else "group"

    @property
    def _left(self) -> str:
        return "left" if self._sections > 1 else "0"

    @property
    def _right(self) -> str:
        return "right" if self._sections > 1 else str(self._rows)

    @property
    def _group_filters(self) -> str:
        filters = self._values.name(self._filters)
        if self._groups == 1:
            return filters
        group = "group" if self._images.shape[0] == 1 else f"group % {self._groups}"
        return f"{filters} + {group} * {self._rows * math.prod(self._filters.shape[1:])}"

    def _find_part(self) -> None:
        """Add the lines that find the filters and the rows of windows of a part, and copy a band."""
        text, band, rows = self._text, self._band, self._anchor.shape[2]
        each = "part"
        """expression that counts the bands of all groups"""
        if self._sections > 1:
            each = f"part / {self._sections}"
            end = f"least(left + {self._section}, {self._rows})"
            text.add(f"const int64_t left = part % {self._sections} * {self._section}, right = {end};")
        if self._number > 1:
            text.add(f"const int64_t {self._index} = {each}{f' / {self._bands}' if self._bands > 1 else ''};")
        if self._bands > 1:
            first = f"{each} % {self._bands}" if self._number > 1 else each
            text.add(f"const int64_t top = {first} * {band.rows}, bottom = least(top + {band.rows}, {rows});")
        if self._sections == 1:
            self._copy_band()
            return
        depth = text.open(f"if (copied != {each})")
        self._copy_band()
        text.add(f"copied = {each};")
        text.close(depth)

    def _copy_band(self) -> None:
        band, image = self._band, self._values.name(self._images)
        _, channels, height, width = self._images.shape
        size, depth = channels * height * width, self._filters.shape[1]
        (down, across), ((above, _), (before, _)) = self._window.strides, self._window.padding
        pixel, channel = 1, height * width
        if self._images.uid in self._kernel.channels_last:
            pixel, channel = channels, 1
        if self._groups > 1:
            group = f"group % {self._groups}" if self._images.shape[0] > 1 else "group"
            image = f"{image} + {group} * {depth * channel}"
        if self._images.shape[0] > 1:
            number = f"group / {self._groups}" if self._groups > 1 else "image"
            image = f"{image} + {number} * {size}"
        top = f"top * {down} - {above}" if self._bands > 1 else f"{-above}"
        image_sizes = (before, height, width, depth, band.plane)
        phase_sizes = (down, band.phases[0], band.lines, across, band.phases[1], band.columns)
        sizes = (*image_sizes, *phase_sizes, pixel, channel)
        self._text.add(f"planes_{self._type}(band, {image}, {top}, {', '.join(map(str, sizes))});")

    def _finish(self) -> None:
        """Add the loop that computes the other operations on sums, and stores the results."""
        text, values, band = self._text, self._values, self._band
        text.add("VECTORIZE")
        text.loop("i", band.across)
        target = f"{values.name(self._result)}[position * {band.across} + i]"
        left = target if self._result is self._anchor else f"{self._type} {values.name(self._anchor)}"
        row = "(row - top)" if self._bands > 1 else "row"
        text.compute(self._anchor, f"{left} = sums[(channel - tile) * {band.length} + {row} * {band.columns} + i];")
        offset = partial(self._operands.offset, row="position", column="i")
        for node, line in values.lines(self._kernel.nodes[1:], target, offset):
            text.compute(node, line)
