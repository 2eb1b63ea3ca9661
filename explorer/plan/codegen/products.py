"""C code of matrix products and convolutions with the elementwise operations on their results.

Both are products of rows of numbers and a matrix. The rows of a convolution are its windows: in an image that is stored
pixel by pixel, a row of a window is adjacent numbers, so windows are read where they are. Images with padding are first
copied with it, a band of rows at a time. The sums of a tile, some rows and columns of the product, stay in registers
(products.c), and the other operations follow while they are in the cache. Threads divide the bands, and if there are
few, also the columns.

If the matrix is the same in every run, it is copied once, in blocks of columns. Another matrix is read where it is, or
copied in each call if it is small and its columns are not adjacent, or not whole blocks. Each sum is added in the order
of the numbers, of the pixels first and of the channels second. Winograd's method adds its 16 products in the same way,
for the tiles of a band. planes.py writes the code of convolutions whose result is stored channel by channel.
"""

from __future__ import annotations

import math
import re
from functools import partial
from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.ops.creation.constants import Full
from explorer.ops.linalg.matmul import Matmul
from explorer.ops.nn.conv import Conv2d, DirectConv2d
from explorer.ops.nn.conv_winograd import WinogradConv2d
from explorer.plan.codegen.elements import BOOLEAN, TYPES, expression_obstacle
from explorer.plan.codegen.indexing import Strides, distances
from explorer.plan.codegen.kernel_code import PIXEL_BY_PIXEL, KernelCode, KernelSpec, OperandCopy
from explorer.plan.codegen.kernel_text import KernelText, counted
from explorer.plan.codegen.operands import Operands
from explorer.plan.codegen.planes import planes_code
from explorer.plan.codegen.tiling import BAND_BYTES, BLOCK_BYTES, ELEMENT, PARTS, WHOLE_ROWS
from explorer.plan.codegen.values import Values

_TAKEN = frozenset(
    re.findall(
        r"\w+",
        "part first last left right column width tile rows sums band blocks numbers image matrix position block copied "
        "least source products count each pixel ROWS",
    )
)
"""identifiers that the code defines"""
_WIDE = 3
"""maximum number of blocks in a tile, as in products.c"""
_BANDS = 2
"""minimum number of bands of Winograd's method: each reads all filters"""
_GROUP = 64
"""maximum number of columns whose products are on the thread's stack"""
_TILES = 9 << 16
"""maximum number of bytes of numbers and products of Winograd's method, which are on the thread's stack like a band;
with musl, the stack has 1 MB"""
_OPERATIONS = (Matmul, Conv2d, DirectConv2d, WinogradConv2d)
_FILTERS_LAST = (2, 3, 1, 0)
"""order of the axes of filters (O, C, h, w) in the matrix"""


def product_code(kernel: KernelSpec) -> KernelCode | None:
    """Return the C code of a product and the operations on its result; None if BLAS computes the product."""
    if not _has_code(kernel) or _is_small(kernel):
        return None
    rows, matrix = kernel.operands(kernel.nodes[0])
    is_read = rows.uid in _read_by_others(kernel)
    if not _is_matmul(kernel) and tuple(kernel.order) != PIXEL_BY_PIXEL:
        return None if is_read and rows.uid in kernel.channels_last else planes_code(kernel)
    product = _product_of(kernel)
    if product is None or (is_read and (product.band is not None or _has_strides(rows, matrix, kernel))):
        return None
    return None if _is_faster_in_blas(product, kernel) else _Writer(kernel, product).code()


def _has_code(kernel: KernelSpec) -> bool:
    """Return whether there is code of the operations and dtypes of a kernel that begins with a product of two arrays.

    No other operation can read the matrix, which may be passed as a copy in blocks.
    """
    anchor, *others = kernel.nodes
    if type(anchor.operation) not in _OPERATIONS:  # subclasses have their own kernels
        return False
    operands, dtype = kernel.operands(anchor), anchor.dtype
    if dtype not in TYPES or dtype == BOOLEAN or any(operand.dtype != dtype for operand in operands):
        return False
    if len({operand.uid for operand in operands}) < 2 or any(isinstance(each.operation, Full) for each in operands):
        return False
    if any(expression_obstacle(node, kernel.operands(node)) for node in others):
        return False
    return operands[1].uid not in _read_by_others(kernel)


def _read_by_others(kernel: KernelSpec) -> set[int]:
    """Return the uids of the operands of the operations on the product."""
    return {operand.uid for node in kernel.nodes[1:] for operand in kernel.operands(node)}


# -- the choice between this code and BLAS -----------------------------------------------------------------------------

_FLOPS = 1 << 10
"""minimum number of operations on numbers: for fewer, calling C code takes as long as calling BLAS"""
_FEW_ROWS = 4
"""minimum number of rows for a matrix that varies: reading it for fewer rows takes longer than the products"""
_DEPTH, _MANY_ROWS = 2700, 256
"""numbers in a row, and rows, from which on BLAS is faster: the columns of a tile then leave the second cache, and are
read again for each tile, while BLAS divides the rows"""
_TRANSPOSED = 1 << 21
"""maximum number of bytes of a transposed operand whose columns are rows of numbers; the second cache holds it"""
_IN_PLACE = 1 << 20
"""maximum number of bytes of each matrix of a stack that is read where it is; BLAS multiplies larger ones faster"""
_TILE_ROWS = 8
"""number of rows that a tile computes, of which a matrix of a stack may have fewer"""
_RATE = 100_000.0
"""flops per µs of the tiles and of BLAS, measured for 4 to 512 rows while the numbers are in the first caches"""
_BLAS_CALL = 0.9
"""µs to call BLAS, and again to call the other operations"""
_COPIED, _GATHERED = 8_000.0, 2_500.0
"""numbers of a matrix and of a transposed matrix that are copied in blocks in 1 µs"""
_BLAS_COPIES = 16
"""minimum number of rows for which BLAS copies a transposed matrix, too"""


def _is_small(kernel: KernelSpec) -> bool:
    """Return whether a product consists of so few operations that calling the code takes most of the time."""
    anchor = kernel.nodes[0]
    rows, matrix = kernel.operands(anchor)
    depth = rows.shape[-1] if _is_matmul(kernel) else math.prod(matrix.shape[1:])
    return 2 * anchor.tensor_type.size * depth < _FLOPS


def _is_faster_in_blas(product: _Product, kernel: KernelSpec) -> bool:
    """Return whether BLAS computes a product that is not small faster than the code.

    BLAS is faster for few rows of a matrix that varies, for filters of Winograd's method that vary, for many long rows,
    and for large transposed rows. For stacks, and matrices that each call copies, it is faster if its estimate is.
    """
    rows, matrix = kernel.operands(kernel.nodes[0])
    count, varies = product.images * product.rows, _varies(matrix, kernel)
    if varies and (count < _FEW_ROWS or product.winograd is not None):
        return True
    if product.read.length >= _DEPTH and count >= _MANY_ROWS:
        return True
    if product.read.stride > 1 and rows.type.nbytes > _TRANSPOSED:
        return True
    return (product.is_stack or _is_copied(matrix, kernel)) and not _pays(product, kernel)


def _pays(product: _Product, kernel: KernelSpec) -> bool:
    """Return whether computing whole tiles, of copies of matrices that are not stored so, is faster than BLAS."""
    matrix = kernel.operands(kernel.nodes[0])[1]
    rows, (depth, columns) = product.rows, matrix.shape[-2:]
    wide, tall = -(-columns // _block(matrix)) * _block(matrix), -(-rows // _TILE_ROWS) * _TILE_ROWS
    copying, is_adjacent = 0.0, _apart(matrix, kernel)[-1] == 1
    if _is_copied(matrix, kernel):
        copying = depth * columns / (_COPIED if is_adjacent else _GATHERED)
    if depth * wide * matrix.dtype.itemsize > (BAND_BYTES if copying else _IN_PLACE):
        return False
    blas = 2 * rows * depth * columns / _RATE
    if not is_adjacent and rows >= _BLAS_COPIES:
        blas += copying
    calls = _BLAS_CALL * min(len(kernel.nodes), 2)
    return product.images * (copying + 2 * tall * depth * wide / _RATE) < calls + product.images * blas


# -- products ----------------------------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """Distances in memory, in numbers, of the rows of a product and of the numbers in a row.

    A row consists of parts: the parts of a window are its rows of pixels.
    """

    across: int
    """number of rows in a line: the windows that are side by side, or all rows of a matrix"""
    down: int
    """distance of lines"""
    right: int
    """distance of rows in a line"""
    parts: int
    apart: int
    """distance of the parts of a row; 0 if there is one"""
    depth: int
    """numbers in a part"""
    stride: int
    """distance of the numbers in a part"""
    added: int
    """approximate count of the numbers that a row reads, and the row before does not"""

    @property
    def length(self) -> int:
        """Numbers in a row."""
        return self.parts * self.depth


class _Band(NamedTuple):
    """Copy of the pixels that some lines of windows cover in an image, with padding."""

    image: tuple[int, int]
    """rows and columns of pixels of an image"""
    channels: int
    """numbers in a pixel"""
    down: int
    """number of lines of windows"""
    across: int
    """number of windows in a line"""
    window: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int]
    """rows above and columns left of an image that are zeros"""
    is_winograd: bool
    """whether the windows are the 4×4 pixels of tiles of Winograd's method"""

    @property
    def columns(self) -> int:
        """Number of columns of pixels."""
        return (self.across - 1) * self.strides[1] + self.window[1]

    def rows(self, lines: int) -> int:
        """Return the number of rows of pixels that some lines of windows cover."""
        return (lines - 1) * self.strides[0] + self.window[0]

    def lines(self, numbers: int) -> int:
        """Return the maximum number of lines of windows that a copy of ``numbers`` numbers covers; < 1 if none fits."""
        return (numbers // (self.columns * self.channels) - self.window[0]) // self.strides[0] + 1


class _Product(NamedTuple):
    """Size of a product of rows of numbers and a matrix, and how the code reads the rows."""

    images: int
    """number of images, or of matrices in a stack, each with the same number of rows"""
    rows: int
    """number of rows of an image"""
    columns: int
    read: _Rows
    """rows in the first operand, or in the band"""
    band: _Band | None = None
    """the copy that the code reads; None if it reads the operand"""
    is_stack: bool = False
    """whether each matrix of a stack is multiplied by its own matrix"""

    @property
    def winograd(self) -> _Band | None:
        """The band if its windows are tiles of Winograd's method."""
        return self.band if self.band is not None and self.band.is_winograd else None


def _product_of(kernel: KernelSpec) -> _Product | None:
    """Return the product that a kernel begins with; None if the code cannot read its operands.

    The code reads no stacks that are broadcast, no windows with dilation or in groups, and no lines of windows whose
    pixels do not fit into a band.
    """
    anchor = kernel.nodes[0]
    left, right = kernel.operands(anchor)
    if isinstance(anchor.operation, Conv2d):
        return _product_of_windows(kernel, anchor.operation, left, right)
    return _product_of_matrices(kernel, left, right)


def _product_of_windows(kernel: KernelSpec, operation: Conv2d, images: Expr, filters: Expr) -> _Product | None:
    window = operation.window(filters.shape)
    if operation.groups > 1 or window.dilation != (1, 1):
        return None
    (h, w), (down, right), ((above, below), (before, after)) = window.size, window.strides, window.padding
    count, channels, height, width = images.shape
    columns, rows, across = kernel.nodes[0].shape[1:]
    is_winograd = isinstance(operation, WinogradConv2d)
    if is_winograd:
        rows, across, h, w, down, right = -(-rows // 2), -(-across // 2), 4, 4, 2, 2
    band = None
    if is_winograd or images.uid not in kernel.channels_last or any((above, below, before, after)):
        band = _Band((height, width), channels, rows, across, (h, w), (down, right), (above, before), is_winograd)
        itemsize = images.dtype.itemsize
        if band.lines(BAND_BYTES // itemsize) < 1 or (is_winograd and _together(band, columns, itemsize) < 1):
            return None
        width = band.columns
    line, step = width * channels, down * channels
    read = _Rows(across, down * line, right * channels, h, line if h > 1 else 0, w * channels, 1, step)
    return _Product(count, rows * across, columns, read, band)


def _product_of_matrices(kernel: KernelSpec, left: Expr, right: Expr) -> _Product | None:
    if min(len(left.shape), len(right.shape)) < 2:
        return None
    *outer, rows, depth = left.shape
    columns = right.shape[-1]
    if outer and len(right.shape) == 2:
        rows *= math.prod(outer)
        return _Product(1, rows, columns, _rows_of_matrix(rows, depth, depth, 1))
    if left.shape[:-2] != right.shape[:-2]:
        return None
    *_, down, along = _apart(left, kernel)
    stacked = math.prod(outer)
    return _Product(stacked, rows, columns, _rows_of_matrix(rows, depth, down, along), is_stack=stacked > 1)


def _rows_of_matrix(rows: int, depth: int, right: int, stride: int) -> _Rows:
    return _Rows(rows, rows * depth, right, 1, 0, depth, stride, depth)


def _varies(node: Expr, kernel: KernelSpec) -> bool:
    return node.uid not in kernel.constants


def _apart(node: Expr, kernel: KernelSpec) -> tuple[int, ...]:
    """Return the distances of the elements of an operand along its axes, in the memory order that the code reads.

    Constants, and rows whose numbers are repeated or reversed, are copied in row-major order before.
    """
    strides = kernel.strides.get(node.uid) if _varies(node, kernel) or len(node.shape) > 2 else None
    if strides is None or strides[-1] < 1:
        return tuple([math.prod(node.shape[axis + 1 :]) for axis in range(len(node.shape))])
    return strides


def _is_copied(matrix: Expr, kernel: KernelSpec) -> bool:
    """Return whether each call copies a matrix in blocks of columns, because it varies and does not consist of them."""
    if not _is_matmul(kernel) or not (_varies(matrix, kernel) or len(matrix.shape) > 2):
        return False
    return _apart(matrix, kernel)[-1] != 1 or matrix.shape[-1] % _block(matrix) > 0


def _has_strides(left: Expr, right: Expr, kernel: KernelSpec) -> bool:
    """Return whether the rows of matrices that are not row-major are read where they are."""
    return left.uid in kernel.strides and len(left.shape) == len(right.shape) and _is_matmul(kernel)


def _is_matmul(kernel: KernelSpec) -> bool:
    return isinstance(kernel.nodes[0].operation, Matmul)


def _block(node: Expr) -> int:
    """Return the number of columns in a block."""
    return BLOCK_BYTES // node.dtype.itemsize


def _together(band: _Band, columns: int, itemsize: int) -> int:
    """Return the maximum number of tiles of Winograd's method whose numbers and products are on the thread's stack."""
    return _TILES // (16 * (band.channels + min(_GROUP, columns)) * itemsize)


class _Parts(NamedTuple):
    """Division of a product into parts, which threads share: bands of rows of each image, and groups of columns."""

    rows: int
    """number of rows in a band"""
    bands: int
    """number of bands in an image"""
    columns: int
    """number of columns in a group"""
    groups: int


def _parts_of(product: _Product, block: int) -> _Parts:
    """Return the parts of a product whose blocks have ``block`` columns."""
    numbers, band = BAND_BYTES // BLOCK_BYTES * block, product.band
    if band is not None:
        most = band.lines(numbers)
        if band.is_winograd:  # threads share bands only
            most = min(most, -(-band.down // _BANDS))
        rows = _even(band.down, max(1, most)) * band.across
    else:
        most = 2 * numbers // (product.read.added * WHOLE_ROWS)
        rows = _even(-(-product.rows // WHOLE_ROWS), max(1, most)) * WHOLE_ROWS
    bands, blocks = -(-product.rows // rows), -(-product.columns // block)
    is_whole = product.winograd is not None or product.is_stack
    groups = PARTS if product.images * bands < PARTS and not is_whole else 1
    columns = max(-(-blocks // groups), min(_WIDE, blocks)) * block
    return _Parts(rows, bands, columns, -(-product.columns // columns))


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
        self._parts = _parts_of(product, self._block)
        self._is_copied = _is_copied(self._matrix, kernel)
        """whether the code copies the matrix in blocks"""
        is_matrix = len(self._matrix.shape) == 2 and not _varies(self._matrix, kernel)
        self._is_packed = is_matrix or isinstance(self._anchor.operation, Conv2d)
        """whether the matrix is passed as a copy in blocks"""
        factors = {self._rows.uid: self._row_strides(), self._matrix.uid: self._matrix_strides()}
        self._operands = Operands(kernel, self._values.reads, factors)
        self._text = KernelText(kernel, self._title(), self._values, self._operands.is_array)

    def code(self) -> KernelCode:
        """Return the code."""
        text, product, parts, reads = self._text, self._product, self._parts, self._values.reads
        if (band := product.band) is not None:
            rows = band.rows(parts.rows // band.across)
            text.add(f"{self._type} band[{rows} * {band.columns} * {band.channels}];")
            if parts.groups > 1:
                text.add("int64_t copied = -1;")
        if self._is_copied:
            depth, whole = product.read.depth, -(-product.columns // self._block) * self._block
            text.add(f"_Alignas({BLOCK_BYTES}) {self._type} blocks[{depth} * {whole}];")
            if not self._product.is_stack:
                self._copy_matrix()
        self._compute_rows() if product.winograd is None else self._compute_tiles(product.winograd)
        length = product.images * parts.bands * parts.groups
        work = self._anchor.tensor_type.size * product.read.length // ELEMENT
        index = [read.uid for read in reads].index(self._matrix.uid)
        return KernelCode(
            self._kernel.name,
            text.ended(),
            text.lines,
            reads,
            (*self._operands.strides, distances(self._result.shape, self._kernel.order)),
            length,
            max(1, work // length),
            packed=(self._packed(index),) if self._is_packed else (),
            is_product=True,
        )

    def _title(self) -> str:
        product, following = self._product, self._kernel.nodes[1:]
        others = f" and {counted(following)}" if following else ""
        rows, depth = product.images * product.rows, product.read.length
        sizes = f"{rows}×{depth} and {depth}×{product.columns}"
        return f"{self._anchor.operation.name} as a product of {sizes} numbers{others}"

    # -- parts -------------------------------------------------------------------------------------------------------

    @property
    def _left(self) -> str:
        return "0" if self._parts.groups == 1 else "left"

    @property
    def _right(self) -> str:
        return str(self._product.columns) if self._parts.groups == 1 else "right"

    def _find_part(self) -> None:
        """Add the lines that find the rows and columns of a part, and copy a band of an image."""
        text, product, parts = self._text, self._product, self._parts
        band = "part"
        if parts.groups > 1:
            band = f"part / {parts.groups}"
            end = f"least(left + {parts.columns}, {product.columns})"
            text.add(f"const int64_t left = part % {parts.groups} * {parts.columns}, right = {end};")
        if product.images > 1:
            text.add(f"const int64_t image = {band}{f' / {parts.bands}' if parts.bands > 1 else ''};")
        first, last = "0", str(product.rows)
        if parts.bands > 1:
            first = f"{band}{f' % {parts.bands}' if product.images > 1 else ''} * {parts.rows}"
            last = f"least(first + {parts.rows}, {product.rows})"
        text.add(f"const int64_t first = {first}, last = {last};")
        if product.images > 1:
            image = self._image(self._rows)
            text.add(f"const {self._type} *source = {self._values.name(self._rows)} + {image};")
        if self._product.is_stack and self._is_copied:
            self._copy_matrix()
        elif self._product.is_stack:
            text.add(f"const {self._type} *matrix = {self._values.name(self._matrix)} + {self._image(self._matrix)};")
        if product.band is not None:
            self._copy_band(product.band, band)

    def _image(self, node: Expr) -> str:
        """Return the position of an image, or of a matrix in a stack, as a C expression."""
        if not self._product.is_stack:
            _, channels, height, width = node.shape
            return f"image * ({height} * {width} * {channels})"
        terms, after = [], 1
        axes: list[tuple[int, int]] = []
        for size, apart in zip(node.shape[:-2], _apart(node, self._kernel), strict=False):
            if size > 1 and axes and axes[-1][1] == size * apart:
                axes[-1] = axes[-1][0] * size, apart
            elif size > 1:
                axes.append((size, apart))
        for number, (size, apart) in reversed([*enumerate(axes)]):
            index = f"image / {after}" if after > 1 else "image"
            terms.append(f"{index}{f' % {size}' if number else ''} * {apart}")
            after *= size
        return " + ".join(reversed(terms))

    def _copy_matrix(self) -> None:
        product, matrix = self._product, self._values.name(self._matrix)
        if self._product.is_stack:
            matrix = f"{matrix} + {self._image(self._matrix)}"
        *_, down, right = _apart(self._matrix, self._kernel)
        arguments = f"{matrix}, {product.read.depth}, {product.columns}, {down}, {right}"
        self._text.add(f"blocks_{self._type}(blocks, {arguments});")

    def _copy_band(self, band: _Band, number: str) -> None:
        """Add the lines that copy a band, whose number is a C expression."""
        text, parts = self._text, self._parts
        above, before = band.padding
        pixel, channel = band.channels, 1
        if self._rows.uid not in self._kernel.channels_last:
            pixel, channel = 1, math.prod(band.image)
        image = "source" if self._product.images > 1 else self._values.name(self._rows)
        top = f"first / {band.across} * {band.strides[0]} - {above}"
        rows = band.rows(parts.rows // band.across)
        sizes = (rows, *band.image, band.channels, before, band.columns, pixel, channel)
        if parts.groups > 1:
            depth = text.open(f"if (copied != {number})")
        text.add(f"band_{self._type}(band, {image}, {top}, {', '.join(map(str, sizes))});")
        if parts.groups > 1:
            text.add(f"copied = {number};")
            text.close(depth)

    # -- tiles -------------------------------------------------------------------------------------------------------

    def _compute_rows(self) -> None:
        """Add the loops over tiles of rows and columns."""
        text, block = self._text, self._block
        text.add(f"{self._type} sums[ROWS * {_WIDE * block}];")
        text.loop("part", "stop", "start")
        self._find_part()
        text.open(f"for (int64_t column = {self._left}, width; column < {self._right}; column += width)")
        text.add(f"width = width_{self._type}({self._right} - column);")
        text.open("for (int64_t tile = first; tile < last; tile += ROWS)")
        self._multiply()
        text.loop("row", "least(tile + ROWS, last)", "tile")
        if self._product.images > 1:
            text.add(f"const int64_t position = image * {self._product.rows} + row;")
        sums, length = f"(row - tile) * {_WIDE * block}", f"least(width, {self._right} - column)"
        if self._product.columns % block == 0:
            # a constant number of elements leaves no rest after the last vector
            text.loop("block", f"width / {block}")
            sums, length = f"{sums} + block * {block}", str(block)
        elif self._product.columns < _WIDE * block:  # one tile
            length = str(self._product.columns)
        self._finish(sums, length)

    def _compute_tiles(self, band: _Band) -> None:
        """Add the loops over tiles of 2×2 results of Winograd's method."""
        text, product, kind = self._text, self._product, self._type
        channels, columns, group = band.channels, product.columns, min(_GROUP, product.columns)
        # as many tiles at once as fit onto the thread's stack
        most = _even(self._parts.rows, _together(band, columns, self._anchor.dtype.itemsize))
        text.add(f"{kind} numbers[16 * {most} * {channels}], products[16 * {most} * {group}], sums[4 * {group}];")
        text.loop("part", "stop", "start")
        self._find_part()
        text.open(f"for (int64_t tile = first; tile < last; tile += {most})")
        text.add(f"const int64_t count = least({most}, last - tile);")
        sizes = f"{most}, {band.across}, {band.columns}, {channels}"
        text.compute(self._anchor, f"winograd_pixels_{kind}(numbers, band, tile - first, count, {sizes});")
        text.open(f"for (int64_t column = 0; column < {columns}; column += {group})")
        right = f"least(column + {group}, {columns})"
        arguments = f"{self._values.name(self._matrix)}, count, {most}, {channels}, {columns}, column, {right}, {group}"
        text.compute(self._anchor, f"winograd_products_{kind}(products, numbers, {arguments});")
        text.loop("each", "tile + count", "tile")
        sums = f"products + (each - tile) * {group}, {most}, {group}"
        text.compute(self._anchor, f"winograd_sums_{kind}(sums, {sums});")
        text.loop("pixel", 4)
        text.add(f"const int64_t row = each / {band.across} * 2 + pixel / 2;")
        text.add(f"const int64_t right = each % {band.across} * 2 + pixel % 2;")
        rows, across = self._anchor.shape[2:]
        text.open(f"if (row < {rows} && right < {across})")
        image = f"image * {rows} + row" if product.images > 1 else "row"
        text.add(f"const int64_t position = ({image}) * {across} + right;")
        self._finish(f"pixel * {group}", str(group) if columns % group == 0 else f"least({group}, {columns} - column)")

    def _multiply(self) -> None:
        """Add the lines that compute the sums of a tile."""
        text, read, name = self._text, self._product.read, self._values.name
        source, row, end = "source" if self._product.images > 1 else name(self._rows), "tile", "last"
        if self._product.band is not None:
            source, row, end = "band", "tile - first", "last - first"
        text.add(f"const {self._type} *numbers[ROWS];")
        lines = f"{read.across}, {read.down}, {read.right}"
        text.add(f"windows_{self._type}(numbers, {source}, {row}, {end}, {lines});")
        matrix = "blocks" if self._is_copied else "matrix" if self._product.is_stack else name(self._matrix)
        offset, block, step = f"{matrix} + column * {read.length}", read.length * self._block, self._block
        if not self._is_packed and not self._is_copied:
            offset, block, step = f"{matrix} + column", self._block, _apart(self._matrix, self._kernel)[-2]
        sizes = f"{read.parts}, {read.apart}, {read.depth}, {read.stride}"
        arguments = f"{sizes}, {offset}, {block}, {step}, width, tile - first"
        text.compute(self._anchor, f"product_{self._type}(sums, numbers, {arguments});")

    def _finish(self, sums: str, length: str) -> None:
        """Add the loop that computes the other operations on sums, and stores the results."""
        text, values = self._text, self._values
        text.add("VECTORIZE")
        text.loop("i", length)
        target = f"{values.name(self._result)}[{self._place} * {self._product.columns} + {self._column}]"
        left = target if self._result is self._anchor else f"{self._type} {values.name(self._anchor)}"
        text.compute(self._anchor, f"{left} = sums[{sums} + i];")
        offset = partial(self._operands.offset, row=self._place, column=self._column)
        for node, line in values.lines(self._kernel.nodes[1:], target, offset):
            text.compute(node, line)

    @property
    def _place(self) -> str:
        """Row of the result."""
        return "position" if self._product.images > 1 or self._product.winograd is not None else "row"

    @property
    def _column(self) -> str:
        """Column of the result."""
        in_blocks = self._product.columns % self._block == 0 and self._product.winograd is None
        return f"column + block * {self._block} + i" if in_blocks else "column + i"

    # -- operands ----------------------------------------------------------------------------------------------------

    def _packed(self, index: int) -> OperandCopy:
        """Return how the matrix, the operand ``index``, is copied in blocks of columns."""
        operation = self._anchor.operation
        if isinstance(operation, WinogradConv2d):
            return OperandCopy(index, (0, 1, 2), has_blocks=True, stacked=1, transform=operation.pack_operand)
        return OperandCopy(index, _FILTERS_LAST if isinstance(operation, Conv2d) else (0, 1), has_blocks=True)

    def _row_strides(self) -> Strides:
        rows = self._rows
        if _has_strides(rows, self._matrix, self._kernel):
            return self._in_place(rows)
        is_last = len(rows.shape) == 4 and rows.uid in self._kernel.channels_last
        return distances(rows.shape, PIXEL_BY_PIXEL if is_last else range(len(rows.shape)))

    def _matrix_strides(self) -> Strides:
        return () if self._is_packed else self._in_place(self._matrix)

    def _in_place(self, node: Expr) -> Strides:
        """Return the strides of matrices that are read where they are."""
        return tuple([(axis, step) for axis, step in enumerate(_apart(node, self._kernel)) if node.shape[axis] > 1])
