"""C code of kernels that combine the pixels of windows: depthwise convolutions, and poolings.

A call computes rows of the result. For each element, the code combines the window's pixels, and then computes the
kernel's other operations, one line per operation. Pixels outside the images are read as zeros (−∞ for maxima) and used
like others, so NaN and ∞ in filters have the same effect as in NumPy. Products are added in the order of the pixels.

There are two kinds of loops:

- *channels*, of poolings and depthwise convolutions of images that are stored pixel by pixel: for each window, the code
  finds the address of each pixel, and loops over its channels, which are contiguous.
- *columns*, of poolings and depthwise convolutions of images that are stored channel by channel: the code copies the
  pixels of a channel that some rows of windows cover, with padding, and loops over the rows and columns of the result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape
from explorer.ops.base import c_literal
from explorer.ops.nn.conv import Conv2d, DirectConv2d
from explorer.ops.nn.kernels.pooling_tiles import WindowOperation
from explorer.ops.nn.kernels.window import Window
from explorer.ops.nn.pooling import AvgPool2d, MaxPool2d
from explorer.plan.codegen.elements import BOOLEAN, TYPES, expression_obstacle, suffix
from explorer.plan.codegen.indexing import Strides
from explorer.plan.codegen.kernel_code import PIXEL_BY_PIXEL, KernelCode, KernelSpec, Obstacle, OperandCopy
from explorer.plan.codegen.kernel_text import KernelText, counted
from explorer.plan.codegen.values import Values

MAX_PIXELS = 64
"""maximum number of pixels in a window, over which the code loops without branches"""
MAX_RUN = 1 << 13
"""maximum number of channels over which the inner loop runs"""
_BAND = 1 << 12
"""number of pixels in the copy of a band, if one row of windows does not cover more; they fit into the cache"""
MAX_BAND = 1 << 15
"""maximum number of pixels in the copy of a band, which is on the thread's stack"""
_ROW_BY_ROW = (0, 1, 2, 3)
_FILTERS_LAST = (2, 3, 1, 0)
"""order of the axes of filters (O, C, h, w) in the copy that the code reads"""
_TAKEN = frozenset(
    re.findall(
        r"\w+",
        "row column rows channel image pixel pixel_row pixel_column tap tap_row tap_column weights line pixels inside "
        "outside numbers apart first counts sum largest number is_nan plane band top bottom phase_row phase_column",
    )
)
"""identifiers that the code defines"""


def combines_windows(node: Expr, operands: Sequence[Expr]) -> bool:
    """Return whether a node is a pooling or a depthwise convolution."""
    operation = node.operation
    if type(operation) not in (Conv2d, DirectConv2d, MaxPool2d, AvgPool2d):  # subclasses have their own kernels
        return False
    return not isinstance(operation, Conv2d) or operands[1].shape[:2] == (operation.groups, 1)


def window_code(kernel: KernelSpec) -> KernelCode | Obstacle:
    """Return the C code of a convolution or pooling and of elementwise operations on its result, or the obstacle."""
    operands, order = kernel.operands, tuple(kernel.order)
    anchor, *others = kernel.nodes
    arrays = operands(anchor)
    dtypes = list(dict.fromkeys(node.dtype for node in (anchor, *arrays)))
    if unknown := [dtype for dtype in dtypes if dtype not in TYPES or dtype == BOOLEAN] or dtypes[1:]:
        return Obstacle("dtype", anchor, {"dtype": str(unknown[0])})
    for node in others:
        if (obstacle := expression_obstacle(node, operands(node))) is not None:
            return obstacle
    image_order = PIXEL_BY_PIXEL if arrays[0].uid in kernel.channels_last else _ROW_BY_ROW
    loop = _loop_of(anchor, arrays, order, image_order)
    if isinstance(loop, Obstacle):
        return loop
    return _Writer(kernel, order, image_order, loop).code()


_Loop = Literal["channels", "columns"]


def _loop_of(
    anchor: Expr, arrays: Sequence[Expr], order: tuple[int, ...], image_order: tuple[int, ...]
) -> _Loop | Obstacle:
    """Return the kind of loop that computes a convolution or pooling, or why there is none."""
    window, images = _window(anchor, arrays), arrays[0]
    pixels = math.prod(window.size)
    if pixels > MAX_PIXELS:
        return Obstacle("large_window", anchor, {"count": pixels, "most": MAX_PIXELS})
    loop: _Loop
    length, along, most = images.shape[1], "channels", MAX_RUN
    if order == PIXEL_BY_PIXEL:
        loop = "channels"
    else:
        loop, along, most = "columns", "pixels under a row of windows", MAX_BAND
        length = max(math.prod(_band(window, anchor.shape).shape), images.shape[3])
    if order != image_order:
        facts = {"operand": images, "read": _named(image_order), "written": _named(order)}
        return Obstacle("memory_order", anchor, facts)
    return Obstacle("long_run", anchor, {"count": length, "along": along, "most": most}) if length > most else loop


def _named(order: tuple[int, ...]) -> str:
    return "pixel by pixel" if order == PIXEL_BY_PIXEL else "channel by channel"


def _window(anchor: Expr, arrays: Sequence[Expr]) -> Window:
    operation = anchor.operation
    if isinstance(operation, Conv2d):
        return operation.window(arrays[1].shape)
    assert isinstance(operation, WindowOperation)
    return operation.window


class _Band(NamedTuple):
    """Rows of a result that are computed together, from a copy of the pixels that their windows cover.

    With strides, adjacent windows read pixels that are not adjacent, so the copy is divided by phase: the rows and
    columns whose remainders by the strides are equal. Adjacent windows then read adjacent numbers of a phase.
    """

    rows: int
    """number of rows in a band, except the last"""
    number: int
    """number of bands in an image"""
    phases: tuple[int, int]
    """number of phases of rows and of columns that the windows cover"""
    lines: int
    """number of rows in a phase"""
    columns: int
    """number of columns in a phase"""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the copy."""
        return (*[phases for phases in self.phases if phases > 1], self.lines, self.columns)


def _band(window: Window, shape: Shape) -> _Band:
    """Return the bands of a result with a shape."""
    rows, columns = shape[2:]
    last = [gap * (size - 1) for gap, size in zip(window.dilation, window.size, strict=True)]
    extra = [position // step for position, step in zip(last, window.strides, strict=True)]
    down, across = [min(step, position + 1) for position, step in zip(last, window.strides, strict=True)]
    width = columns + extra[1]
    count = -(-rows // max(1, _BAND // (down * across * width) - extra[0]))
    height = -(-rows // count)
    return _Band(height, -(-rows // height), (down, across), height + extra[0], width)


def _times(index: str, step: int) -> str:
    return index if step == 1 else f"{index} * {step}"


class _Writer:
    """Writes the code of one kernel."""

    def __init__(
        self,
        kernel: KernelSpec,
        order: tuple[int, ...],
        image_order: tuple[int, ...],
        loop: _Loop,
    ) -> None:
        self._kernel, self._order, self._loop = kernel, order, loop
        self._anchor, self._result = kernel.nodes[0], kernel.result
        arrays = kernel.operands(self._anchor)
        self._images = arrays[0]
        self._filters = arrays[1] if len(arrays) > 1 else None
        self._window = _window(self._anchor, arrays)
        self._values = Values(kernel, _TAKEN)
        self._orders = {self._images.uid: image_order}
        """order of the axes of images and filters; other operands are stored like the result"""
        if self._filters is not None:
            self._orders[self._filters.uid] = _ROW_BY_ROW if loop == "columns" else _FILTERS_LAST
        self._type = TYPES[self._anchor.dtype]
        self._text = KernelText(kernel, self._title(), self._values, self._is_array)

    def code(self) -> KernelCode:
        """Return the code."""
        text, values, reads = self._text, self._values, self._values.reads
        self._columns() if self._loop == "columns" else self._pixels()
        text.add("VECTORIZE")
        run = self._result.shape[self._order[-1]]
        text.loop("i", run)
        target = f"{values.name(self._result)}[first + i]"
        self._combine(target)
        for node, line in values.lines(self._kernel.nodes[1:], target, self._offset):
            text.compute(node, line)
        rows, columns = self._result.shape[2:]
        row, length = run * columns, self._result.shape[0] * rows
        if self._loop == "columns":
            band = _band(self._window, self._result.shape)
            row, length = band.rows * columns, math.prod(self._result.shape[:2]) * band.number
        packed = [index for index, read in enumerate(reads) if self._orders.get(read.uid) == _FILTERS_LAST]
        strides = [() if index in packed else self._strides(read) for index, read in enumerate(reads)]
        return KernelCode(
            self._kernel.name,
            text.ended(),
            text.lines,
            reads,
            (*strides, self._strides(self._result)),
            length,
            row,
            packed=tuple([OperandCopy(index, _FILTERS_LAST) for index in packed]),
        )

    def _is_array(self, index: int) -> bool:
        return self._values.reads[index].uid in self._orders or self._offset(index) is not None

    def _title(self) -> str:
        following = self._kernel.nodes[1:]
        others = f" and {counted(following)}" if following else ""
        size, shape = ["×".join(map(str, sizes)) for sizes in (self._window.size, self._result.shape)]
        return f"{self._anchor.operation.name} with {size} windows{others} on {shape} elements"

    # -- loops over windows ------------------------------------------------------------------------------------------

    def _pixels(self) -> None:
        """Begin the loops over the windows of images in which channels are the inner loop."""
        text, window = self._text, self._window
        n, channels, height, width = self._images.shape
        rows, columns = self._result.shape[2:]
        h, w = window.size
        steps = self._steps(self._images)
        text.add(f"static const {self._type} outside[{channels}]{self._padding(channels)};")
        self._count_columns()
        text.loop("row", "stop", "start")
        position, image = "row", self._values.name(self._images)
        if n > 1:
            position, image = f"row % {rows}", f"{image} + row / {rows} * ({channels} * {height} * {width})"
        text.add(f"const {self._type} *image = {image};")
        self._count_rows(position)
        text.loop("column", columns)
        size = f"{h} * {w}"
        text.add(f"const {self._type} *pixel[{size}];")
        depth = text.loop("tap_row", h)
        text.add(f"const int64_t pixel_row = {self._position(0, position)};")
        text.loop("tap_column", w)
        text.add(f"const int64_t pixel_column = {self._position(1, 'column')};")
        inside = f"pixel_row >= 0 && pixel_row < {height} && pixel_column >= 0 && pixel_column < {width}"
        text.add(f"const int inside = {inside};")
        tap = f"tap_row * {w} + tap_column"
        pixel = f"image + {_times('pixel_row', steps[2])} + {_times('pixel_column', steps[3])}"
        text.add(f"pixel[{tap}] = inside ? {pixel} : outside;")
        text.close(depth)
        text.add(f"const int64_t first = (row * {columns} + column) * {self._result.shape[1]};")

    def _columns(self) -> None:
        """Begin the loops over rows of windows of images in which columns are the inner loop."""
        text, band = self._text, _band(self._window, self._result.shape)
        n, channels, height, width = self._images.shape
        rows, columns = self._result.shape[2:]
        text.add(f"static const {self._type} outside[{width}]{self._padding(width)};")
        text.add(f"{self._type} pixels{''.join([f'[{size}]' for size in band.shape])};")
        text.add(f"fill_{self._type}(({self._type} *)pixels, {math.prod(band.shape)}, {self._outside});")
        self._count_columns()
        if band.number == 1:
            text.loop("plane", "stop", "start")
        else:
            text.loop("band", "stop", "start")
            text.add(f"const int64_t plane = band / {band.number}, top = band % {band.number} * {band.rows};")
        text.add(f"const {self._type} *image = {self._values.name(self._images)} + plane * ({height} * {width});")
        if self._filters is not None:
            channel, size = "plane" if n == 1 else f"plane % {channels}", "{} * {}".format(*self._window.size)
            text.add(f"const {self._type} *weights = {self._values.name(self._filters)} + {channel} * ({size});")
        self._copy_band(band)
        if band.number == 1:
            text.loop("row", rows)
        else:
            bottom = f"top + {band.rows}"
            if rows % band.rows:
                text.add(f"const int64_t bottom = {bottom} < {rows} ? {bottom} : {rows};")
                bottom = "bottom"
            text.loop("row", bottom, "top")
        self._count_rows("row")
        text.add(f"const int64_t first = (plane * {rows} + row) * {columns};")

    def _copy_band(self, band: _Band) -> None:
        """Copy the pixels that the windows of a band cover; columns outside the images keep their value."""
        text = self._text
        _, _, height, width = self._images.shape
        (down, across), ((above, _), (left, _)) = self._window.strides, self._window.padding
        line = "line" if band.number == 1 else "(top + line)" if down > 1 else "top + line"
        row, column, index = _times(line, down), _times("column", across), ""
        first, last = str(left), str(min(left + width, band.columns))
        depths = []
        if band.phases[0] > 1:
            depths.append(text.loop("phase_row", band.phases[0]))
            row, index = f"{row} + phase_row", "[phase_row]"
        depths.append(text.loop("line", band.lines))
        text.add(f"const int64_t pixel_row = {row}{f' - {above}' * (above > 0)};")
        # no condition in the loop over columns, because gcc 12 miscompiles conditional loads with strides
        text.add(f"const int inside = pixel_row >= 0 && pixel_row < {height};")
        text.add(f"const {self._type} *pixel = inside ? image + {_times('pixel_row', width)} : outside;")
        if across > 1:
            # the first column at or after the left edge, and the first at or after the right edge
            first, last = [f"{min(edge, band.columns * across) + across - 1}" for edge in (left, left + width)]
            if band.phases[1] > 1:
                text.add(f"UNROLL({band.phases[1]})")
                text.loop("phase_column", band.phases[1])
                column, index = f"{column} + phase_column", f"{index}[phase_column]"
                first, last = f"({first} - phase_column)", f"({last} - phase_column)"
            first, last = f"{first} / {across}", f"{last} / {across}"
        text.loop("column", last, first)
        text.add(f"pixels{index}[line][column] = pixel[{column}{f' - {left}' * (left > 0)}];")
        text.close(depths[0])

    def _position(self, axis: int, index: str) -> str:
        """Return the position of a tap's pixel along an axis of the image, for the window with an index."""
        window = self._window
        step, gap, (before, _) = window.strides[axis], window.dilation[axis], window.padding[axis]
        terms = _times(index, step)
        if self._window.size[axis] > 1:
            tap = ("tap_row", "tap_column")[axis]
            terms += f" + {_times(tap, gap)}"
        return f"{terms} - {before}" if before else terms

    @property
    def _outside(self) -> str:
        """C literal of pixels outside the images."""
        return "-INFINITY" if isinstance(self._anchor.operation, MaxPool2d) else "0"

    def _padding(self, count: int) -> str:
        return f" = {{[0 ... {count - 1}] = {self._outside}}}" if self._outside != "0" else ""

    # -- the divisors of means ---------------------------------------------------------------------------------------

    @property
    def _counts_vary(self) -> bool:
        """Whether the windows of a mean have different numbers of pixels that count."""
        operation = self._anchor.operation
        if not isinstance(operation, AvgPool2d):
            return False
        return operation.ceil or (not operation.count_padding and max(map(max, operation.padding)) > 0)

    def _counted(self, axis: int, position: str) -> str:
        """Return the condition that a tap counts along an axis."""
        operation = self._anchor.operation
        assert isinstance(operation, AvgPool2d)
        before, after = operation.padding[axis] if operation.count_padding else (0, 0)
        return f"{position} >= {-before} && {position} < {self._images.shape[2 + axis] + after}"

    def _count_columns(self) -> None:
        """Count the columns of each window."""
        if self._counts_vary:
            text, columns = self._text, self._result.shape[3]
            text.add(f"{self._type} counts[{columns}];")
            depth = text.loop("column", columns)
            text.add("counts[column] = 0;")
            text.loop("tap_column", self._window.size[1])
            text.add(f"const int64_t pixel_column = {self._position(1, 'column')};")
            text.add(f"counts[column] += {self._counted(1, 'pixel_column')};")
            text.close(depth)

    def _count_rows(self, position: str) -> None:
        """Count the rows of the windows in a row."""
        if self._counts_vary:
            text = self._text
            text.add(f"{self._type} rows = 0;")
            depth = text.loop("tap_row", self._window.size[0])
            text.add(f"const int64_t pixel_row = {self._position(0, position)};")
            text.add(f"rows += {self._counted(0, 'pixel_row')};")
            text.close(depth)

    # -- one element -------------------------------------------------------------------------------------------------

    def _combine(self, target: str) -> None:
        """Add the lines that combine the pixels of a window, whose result may be ``target``."""
        text, operation, (h, w) = self._text, self._anchor.operation, self._window.size
        name, dtype = self._values.name(self._anchor), suffix(self._anchor.dtype)
        is_result = self._result is self._anchor
        left = target if is_result else f"{self._type} {name}"
        loops, pixel, weight = self._taps()
        is_pooling = isinstance(operation, (MaxPool2d, AvgPool2d))
        total = "largest" if isinstance(operation, MaxPool2d) else "sum" if is_pooling or is_result else name
        text.comment(self._anchor)
        text.add(f"{self._type} {total} = {self._outside};")
        if isinstance(operation, MaxPool2d):
            text.add("int is_nan = 0;")
        depths = []
        for variable, count in loops:
            text.add(f"UNROLL({count})")
            depths.append(text.loop(variable, count))
        if isinstance(operation, MaxPool2d) or self._loop == "columns":
            text.add(f"{self._type} number = {pixel};")
            pixel = "number"
        if isinstance(operation, MaxPool2d):
            update = "number >= largest ? number : largest"
        elif isinstance(operation, AvgPool2d):
            update = f"sum + {pixel}"
        else:
            update = f"muladd_{dtype}({pixel}, {weight}, {total})"
        text.compute(self._anchor, f"{total} = {update};")
        if isinstance(operation, MaxPool2d):
            text.add("is_nan |= number != number;")
        text.close(depths[0])
        if isinstance(operation, MaxPool2d):
            # comparing NaN separately, because compilers do not vectorize a chain of selections with two conditions
            text.compute(self._anchor, f"{left} = is_nan ? NAN : largest;")
        elif isinstance(operation, AvgPool2d):
            divisor = c_literal(h * w, dtype)
            if self._counts_vary:
                divisor = f"(rows * counts[{'i' if self._loop == 'columns' else 'column'}])"
            text.compute(self._anchor, f"{left} = sum / {divisor};")
        elif is_result:
            text.compute(self._anchor, f"{target} = sum;")

    def _taps(self) -> tuple[list[tuple[str, int]], str, str]:
        """Return the loops over the pixels of a window, and C expressions of a pixel and its weight."""
        h, w = self._window.size
        if self._loop == "columns":
            band = _band(self._window, self._result.shape)
            phases, positions = "", ["row" if band.number == 1 else "row - top", "i"]
            for axis, tap in enumerate(("tap_row", "tap_column")):
                step, gap = self._window.strides[axis], self._window.dilation[axis]
                tap = _times(tap, gap)
                if band.phases[axis] > 1:
                    phases += f"[{tap} % {step}]"
                if self._window.size[axis] > 1:
                    positions[axis] += f" + {tap}{f' / {step}' * (step > 1)}"
            pixel = f"pixels{phases}{''.join([f'[{position}]' for position in positions])}"
            return [("tap_row", h), ("tap_column", w)], pixel, f"weights[tap_row * {w} + tap_column]"
        filters = "" if self._filters is None else self._values.name(self._filters)
        return (
            [("tap", h * w)],
            "pixel[tap][i]",
            f"{filters}[tap * {self._result.shape[1]} + i]",
        )

    def _offset(self, index: int) -> str | None:
        """Return the position of an element of an operand as a C expression; None if the operand has one element."""
        read, shape = self._values.reads[index], self._result.shape
        steps = {axis + len(shape) - len(read.shape): step for axis, step in self._strides(read)}
        if not steps:
            return None
        if steps == dict(self._strides(self._result)):
            return "first + i"
        n, channels, rows, _ = shape
        if self._loop == "columns":
            channel = f"plane % {channels}" if n > 1 else "plane"
            index_of = {0: f"plane / {channels}", 1: channel, 2: "row", 3: "i"}
        else:
            index_of = {0: f"row / {rows}", 1: "i", 2: f"row % {rows}" if n > 1 else "row", 3: "column"}
        return " + ".join([_times(index_of[axis], step) for axis, step in sorted(steps.items())])

    def _strides(self, node: Expr) -> Strides:
        """Return (axis, distance in elements) for the axes of an operand that are longer than one."""
        return tuple([(axis, step) for axis, step in self._steps(node).items() if node.shape[axis] > 1])

    def _steps(self, node: Expr) -> dict[int, int]:
        """Return axis → distance in elements, from the innermost axis in memory to the outermost."""
        missing = len(self._order) - len(node.shape)
        step, steps = 1, {}
        for axis in reversed(self._orders.get(node.uid, self._order)):
            if axis >= missing:
                steps[axis - missing] = step
                step *= node.shape[axis - missing]
        return steps
