"""C code of matrix products and convolutions with the elementwise operations on their results.

Both are products of rows of numbers and a matrix. The rows of a convolution are its windows: in an image that is stored
pixel by pixel, a row of a window is adjacent numbers, so windows are read where they are. Images with padding are first
copied with it, a band of rows at a time. The sums of a tile, some rows and columns of the product, stay in registers
(products.c), and the other operations follow while they are in the cache. Threads divide the bands, and if there are
few, also the columns.

If the matrix is the same in every run, it is copied once, in blocks of columns. Each sum is added in the order of the
numbers, of the pixels first and of the channels second.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.ops.linalg.matmul import Matmul
from explorer.ops.nn.conv import Conv2d, DirectConv2d
from explorer.plan.codegen.elements import BOOLEAN, TYPES, expression_obstacle
from explorer.plan.codegen.indexing import distances, offset
from explorer.plan.codegen.kernel_code import PIXEL_BY_PIXEL, KernelCode, KernelSpec
from explorer.plan.codegen.kernel_text import KernelText, counted
from explorer.plan.codegen.values import Values

_TAKEN = frozenset(
    re.findall(r"\w+", "part first last left right column width tile rows sums band numbers least source ROWS")
)
"""identifiers that the code defines"""
_BLOCK_BYTES, _WIDE = 64, 3
"""size of a block of columns, and maximum number of blocks in a tile, as in products.c"""
_ROWS = 24
"""a multiple of the number of rows of a tile on each machine"""
_NUMBERS = 1 << 16
"""maximum number of numbers in a band, which is on the thread's stack, and which the second cache holds"""
_PARTS = 4
"""minimum number of parts that threads can share"""
_FLOPS = 1 << 15
"""minimum number of operations: for fewer, BLAS and a C function on its result take as long"""
_FEW_ROWS = 4
"""minimum number of rows: reading a matrix for fewer rows takes longer than the products"""


class _Product(NamedTuple):
    """Rows of numbers and a matrix, and how the rows are found in the first operand."""

    images: int
    """number of images, each with the same number of rows"""
    rows: int
    """number of rows of an image"""
    columns: int
    parts: int
    """number of parts of a row; the numbers of a part are adjacent"""
    depth: int
    """numbers in a part"""
    size: tuple[int, int]
    """rows and columns of pixels of an image"""
    channels: int
    """numbers in a pixel"""
    across: int
    """number of windows in a row of windows"""
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    """rows above and columns left of an image that are zeros"""
    window: tuple[int, int] = (1, 1)
    copies: bool = False
    """whether bands of the images are copied"""

    @property
    def padded(self) -> int:
        """Number of columns of pixels in a band, or in an image that is not copied."""
        return (self.across - 1) * self.strides[1] + self.window[1] if self.copies else self.size[1]

    def lines(self, windows: int) -> int:
        """Return the number of rows of pixels that some rows of windows cover."""
        return (windows - 1) * self.strides[0] + self.window[0]


def product_code(kernel: KernelSpec) -> KernelCode | None:
    """Return the C code of a product and the operations on its result; None if BLAS computes the product.

    BLAS computes stacks of matrices, products of few rows or with few operations, matrices that vary unless they can be
    read where they are, results or images in another memory order, and convolutions with dilation or groups.
    """
    anchor, *others = kernel.nodes
    operands = kernel.operands(anchor)
    dtype = anchor.dtype
    if dtype not in TYPES or dtype == BOOLEAN or any(operand.dtype != dtype for operand in operands):
        return None
    if len({operand.uid for operand in operands}) < 2:
        return None
    used = {operand.uid for node in others for operand in kernel.operands(node)}
    if operands[1].uid in used or any(expression_obstacle(node, kernel.operands(node)) for node in others):
        return None
    product = _product_of(kernel)
    if product is None:
        return None
    if product.copies and operands[0].uid in used:  # it is stored in another order than the result
        return None
    is_worthwhile = (
        product.images * product.rows >= _FEW_ROWS
        and 2 * anchor.tensor_type.size * product.parts * product.depth >= _FLOPS
    )
    return _Writer(kernel, product).code() if is_worthwhile else None


def _product_of(kernel: KernelSpec) -> _Product | None:
    anchor = kernel.nodes[0]
    operation, (left, right) = anchor.operation, kernel.operands(anchor)
    if type(operation) is Matmul:
        is_matrix = len(right.shape) == 2 and len(left.shape) >= 2 and kernel.result.shape == anchor.shape
        if not is_matrix or not (right.uid in kernel.constants or right.shape[1] % _block(right) == 0):
            return None
        *outer, depth = left.shape
        rows = math.prod(outer)
        return _Product(1, rows, right.shape[1], 1, depth, (1, rows), depth, rows)
    if type(operation) not in (Conv2d, DirectConv2d) or tuple(kernel.order) != PIXEL_BY_PIXEL:
        return None
    assert isinstance(operation, Conv2d)
    window = operation.window(right.shape)
    (h, w), strides, ((above, below), (before, after)) = window.size, window.strides, window.padding
    if operation.groups > 1 or window.dilation != (1, 1):
        return None
    images, channels, *size = left.shape
    rows, across = anchor.shape[2:]
    copies = left.uid not in kernel.channels_last or bool(above or below or before or after)
    product = _Product(
        images,
        rows * across,
        right.shape[0],
        h,
        w * channels,
        (size[0], size[1]),
        channels,
        across,
        (strides[0], strides[1]),
        (above, before),
        (h, w),
        copies,
    )
    if copies and product.lines(1) * product.padded * channels > _NUMBERS:
        return None
    return product


def _block(node: Expr) -> int:
    """Return the number of columns in a block."""
    return _BLOCK_BYTES // node.dtype.itemsize


def _even(count: int, most: int) -> int:
    """Return the size of equal parts of ``count``, with at most ``most`` in each."""
    return -(-count // -(-count // most))


class _Writer:
    """Writes the code of one product."""

    def __init__(self, kernel: KernelSpec, product: _Product) -> None:
        self._kernel, self._product = kernel, product
        self._anchor, self._result = kernel.nodes[0], kernel.result
        self._rows, self._matrix = kernel.operands(self._anchor)
        self._values = Values(kernel, _TAKEN)
        self._type = TYPES[self._anchor.dtype]
        self._block = _block(self._anchor)
        self._is_packed = self._matrix.uid in kernel.constants or self._matrix.shape[1:] != (product.columns,)
        shape = self._result.shape
        rank = len(shape)
        self._present = [
            [axis >= rank - len(read.shape) and read.shape[axis - rank] == shape[axis] > 1 for axis in range(rank)]
            for read in self._values.reads
        ]

    def _step(self) -> int:
        """Return the number of rows in a part: some rows of windows, if their pixels are copied."""
        product = self._product
        if not product.copies:
            most = max(1, 2 * _NUMBERS // (product.channels * product.strides[0] * _ROWS))
            return _even(-(-product.rows // _ROWS), most) * _ROWS
        most = max(1, (_NUMBERS // (product.padded * product.channels) - product.window[0]) // product.strides[0] + 1)
        return _even(product.rows // product.across, most) * product.across

    def code(self) -> KernelCode:
        """Return the code."""
        product, values, kernel = self._product, self._values, self._kernel
        text = KernelText(kernel, self._title(), values, self._is_array)
        step = self._step()
        bands = -(-product.rows // step)
        blocks = -(-product.columns // self._block)
        groups = min(_PARTS, -(-blocks // 4)) if product.images * bands < _PARTS else 1
        group = -(-blocks // groups) * self._block
        groups = -(-product.columns // group)
        if product.copies:
            lines = product.lines(step // product.across)
            text.add(f"{self._type} band[{lines} * {product.padded} * {product.channels}];")
        text.add(f"{self._type} sums[ROWS * {_WIDE * self._block}];")
        text.loop("part", "stop", "start")
        self._find_part(text, bands, step, groups, group)
        right = str(product.columns) if groups == 1 else "right"
        depth = text.open(
            f"for (int64_t column = {0 if groups == 1 else 'left'}, width; column < {right}; column += width)"
        )
        text.add(f"width = width_{self._type}({right} - column);")
        text.open("for (int64_t tile = first; tile < last; tile += ROWS)")
        text.add(f"const {self._type} *numbers[ROWS];")
        inner = text.loop("i", "ROWS")
        text.add("const int64_t row = least(tile + i, last - 1)" + (" - first;" if product.copies else ";"))
        text.add(f"numbers[i] = {self._source} + {self._position()};")
        text.close(inner)
        text.compute(self._anchor, f"product_{self._type}(sums, numbers, {self._arguments()}, width);")
        text.loop("row", "least(tile + ROWS, last)", "tile")
        if product.images > 1:
            text.add(f"const int64_t place = image * {product.rows} + row;")
        text.add("VECTORIZE")
        text.loop("i", f"least(width, {right} - column)")
        target = f"{values.name(self._result)}[{self._place} * {product.columns} + column + i]"
        sum_ = f"sums[(row - tile) * {_WIDE * self._block} + i]"
        is_result = self._result is self._anchor
        text.compute(self._anchor, f"{target if is_result else f'{self._type} {values.name(self._anchor)}'} = {sum_};")
        for node, line in values.lines(kernel.nodes[1:], target, self._offset):
            text.compute(node, line)
        text.close(depth)
        length = product.images * bands * groups
        work = self._anchor.tensor_type.size * product.parts * product.depth // 16
        matrix_order = self._matrix_order
        blocked = tuple(
            ([read.uid for read in values.reads].index(self._matrix.uid), matrix_order) for _ in range(self._is_packed)
        )
        return KernelCode(
            kernel.name,
            text.ended(),
            text.lines,
            values.reads,
            (*map(self._strides, range(len(values.reads))), self._result_strides),
            length,
            max(1, work // length),
            blocked=tuple(blocked if self._is_packed else ()),
            is_product=True,
        )

    def _title(self) -> str:
        following = self._kernel.nodes[1:]
        others = f" and {counted(following)}" if following else ""
        product = self._product
        rows = product.images * product.rows
        return (
            f"{self._anchor.operation.name} as a product of {rows}×{product.parts * product.depth} and "
            f"{product.parts * product.depth}×{product.columns} numbers{others}"
        )

    def _find_part(self, text: KernelText, bands: int, step: int, groups: int, group: int) -> None:
        """Add the lines that find the rows and columns of a part, and copy a band of an image."""
        product = self._product
        position = "part" if groups == 1 else f"part / {groups}"
        if groups > 1:
            text.add(
                f"const int64_t left = part % {groups} * {group}, right = least(left + {group}, {product.columns});"
            )
        if product.images > 1:
            text.add(f"const int64_t image = {position}{f' / {bands}' if bands > 1 else ''};")
        if bands > 1:
            band = f"{position} % {bands}" if product.images > 1 else position
            text.add(f"const int64_t first = {band} * {step}, last = least(first + {step}, {product.rows});")
        else:
            text.add(f"const int64_t first = 0, last = {product.rows};")
        images = self._values.name(self._rows)
        height, width = product.size
        if product.images > 1:
            text.add(f"const {self._type} *source = {images} + image * ({height} * {width} * {product.channels});")
        if product.copies:
            pixel, channel = (
                (product.channels, 1) if self._rows.uid in self._kernel.channels_last else (1, height * width)
            )
            above, before = product.padding
            top = f"first / {product.across} * {product.strides[0]} - {above}"
            lines = product.lines(step // product.across)
            image = "source" if product.images > 1 else images
            sizes = f"{lines}, {height}, {width}, {product.channels}, {before}, {product.padded}, {pixel}, {channel}"
            text.add(f"band_{self._type}(band, {image}, {top}, {sizes});")

    @property
    def _source(self) -> str:
        if self._product.copies:
            return "band"
        return "source" if self._product.images > 1 else self._values.name(self._rows)

    @property
    def _place(self) -> str:
        return "place" if self._product.images > 1 else "row"

    def _position(self) -> str:
        """Return the position of the first number of a row of the product."""
        product = self._product
        if product.across == product.rows or (product.strides == (1, 1) and product.padded == product.across):
            step = product.strides[1]
            return f"row * {product.channels * step}"
        down, right = product.strides
        return (
            f"(row / {product.across} * {down * product.padded} + row % {product.across}"
            f"{f' * {right}' * (right > 1)}) * {product.channels}"
        )

    def _arguments(self) -> str:
        product = self._product
        apart = product.padded * product.channels if product.parts > 1 else 0
        total = product.parts * product.depth
        matrix = self._values.name(self._matrix)
        where = f"{matrix} + column * {total}, {total * self._block}, {self._block}"
        if not self._is_packed:
            where = f"{matrix} + column, {self._block}, {product.columns}"
        return f"{product.parts}, {apart}, {product.depth}, {where}"

    # -- operands ----------------------------------------------------------------------------------------------------

    @property
    def _matrix_order(self) -> tuple[int, ...]:
        """Axes of the matrix from the outermost to the innermost, of which the last are the columns."""
        return (2, 3, 1, 0) if len(self._matrix.shape) == 4 else (0, 1)

    def _is_array(self, index: int) -> bool:
        read = self._values.reads[index]
        return read.uid in (self._rows.uid, self._matrix.uid) or self._offset(index) is not None

    def _offset(self, index: int) -> str | None:
        """Return the position of an element of an operand as a C expression; None if the operand has one element."""
        present, order, shape = self._present[index], self._kernel.order, self._result.shape
        *outer, inner = order
        if not any(present):
            return None
        step = shape[inner] if present[inner] else 1
        rows = offset([(shape[axis], present[axis]) for axis in outer], self._place, step)
        return " + ".join([term for term in (rows, "column + i" if present[inner] else "") if term])

    def _strides(self, index: int) -> tuple[tuple[int, int], ...]:
        """Return (axis of the operand, distance in elements) for the axes along which an operand has elements."""
        read = self._values.reads[index]
        if read is self._matrix:
            return () if self._is_packed else distances(enumerate(read.shape))
        if read is self._rows:
            pixels = len(read.shape) == 4 and read.uid in self._kernel.channels_last
            order = PIXEL_BY_PIXEL if pixels and isinstance(self._anchor.operation, Conv2d) else range(len(read.shape))
            return distances([(axis, read.shape[axis]) for axis in order])
        missing, present = len(self._result.shape) - len(read.shape), self._present[index]
        return distances([(axis - missing, self._result.shape[axis]) for axis in self._kernel.order if present[axis]])

    @property
    def _result_strides(self) -> tuple[tuple[int, int], ...]:
        return distances([(axis, self._result.shape[axis]) for axis in self._kernel.order])
