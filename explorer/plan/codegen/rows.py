"""C code of kernels that combine the elements of rows: reductions and normalizations with elementwise operations.

If the kernel's reductions combine the innermost axes, the code is a loop over rows, which threads divide. Values that a
later loop reads are computed again if they are cheap, else they are stored in an array of the row's size. Long rows are
divided into tiles, so that reductions need only an array of the tile's size. If the reductions also combine outer axes,
such as that of a batch of images, a row consists of parts, and each loop over elements is in a loop over the parts. If
the reductions combine no innermost axes, ``columns.py`` writes the code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from explorer.core.ir.expr import Expr
from explorer.plan.codegen.columns import column_code
from explorer.plan.codegen.elements import BOOLEAN, TYPES, are_defined, expression_obstacle, has_rows, suffix
from explorer.plan.codegen.indexing import offset
from explorer.plan.codegen.kernel_code import PIXEL_BY_PIXEL, KernelCode, KernelSpec, Obstacle
from explorer.plan.codegen.kernel_text import KernelText, counted
from explorer.plan.codegen.row_lines import Line, Read, RowLines, Rows, Source, rows_of

_CHEAP = 4
"""maximum number of operations that are computed again instead of stored"""
_TILE = 2048
"""number of elements of a row that are computed at once, a multiple of a sum's blocks"""
_STORED_BYTES = 1 << 18
"""maximum number of bytes of arrays in a function, which are on the thread's stack; values of longer rows are computed
again"""


def row_code(kernel: KernelSpec) -> KernelCode | Obstacle:
    """Return the C code of a kernel that combines the elements of rows, or the obstacle."""
    nodes, operands = kernel.nodes, kernel.operands
    for node in nodes:
        if (obstacle := _obstacle(node, operands(node))) is not None:
            return obstacle
    rows = rows_of(nodes, operands)
    reduction = next(node for node in nodes if not node.operation.elementwise)
    if rows is None:
        return Obstacle("columns", reduction)
    if not rows.is_element(kernel.result.shape):
        kernel = kernel._replace(order=_order_of_operands(kernel, rows))
    axes = [axis for axis in kernel.order if rows.shape[axis] > 1]
    runs = [[*run] for _, run in groupby(axes, lambda axis: axis in rows.axes)]
    if not runs or runs[-1][0] in rows.axes:
        is_row = len(runs) < 3 or (len(runs) == 3 and runs[0][0] in rows.axes)
        return _Writer(kernel, rows, runs[-1]).code() if runs and is_row else Obstacle("columns", reduction)
    return column_code(kernel, rows) or Obstacle("columns", reduction)


def _order_of_operands(kernel: KernelSpec, rows: Rows) -> Sequence[int]:
    """Return the order of the axes in memory of a kernel whose result has no elements of rows."""
    inside = {node.uid for node in kernel.nodes}
    reads = [read for node in kernel.nodes for read in kernel.operands(node) if read.uid not in inside]
    images = [read.uid in kernel.channels_last for read in reads if read.shape == rows.shape]
    return PIXEL_BY_PIXEL if images and all(images) else range(len(rows.shape))


def _obstacle(node: Expr, operands: Sequence[Expr]) -> Obstacle | None:
    """Return why a node has no C lines, or None."""
    operation = node.operation
    if operation.elementwise:
        return expression_obstacle(node, operands)
    if not has_rows(operation):
        return Obstacle("no_expression", node)
    for each in (node, *operands):
        if each.dtype not in TYPES or each.dtype == BOOLEAN:
            return Obstacle("dtype", node, {"dtype": str(each.dtype)})
        if each.dtype != node.dtype:
            return Obstacle("dtype", node, {"dtype": f"{each.dtype} and {node.dtype}"})
    lines = [line.replace("{t}", suffix(node.dtype)) for line in operation.c_rows]
    return None if are_defined(lines) else Obstacle("function", node, {"dtype": str(node.dtype)})


class _Writer:
    """Writes the code of one kernel, whose reductions combine the innermost axes ``inner``, and perhaps outer ones."""

    def __init__(self, kernel: KernelSpec, rows: Rows, inner: Sequence[int]) -> None:
        self._kernel, self._rows = kernel, rows
        shape, axes = rows
        kept = [axis for axis in kernel.order if axis not in axes]
        outer = [axis for axis in kernel.order if axis in axes and axis not in inner]
        self._length, self._parts = (math.prod([shape[axis] for axis in each]) for each in (inner, outer))

        def terms(present: Sequence[bool]) -> tuple[str, ...]:
            found, step = [], 1
            for each, variable in ((inner, "i"), (kept, "row"), (outer, "part")):
                found.append(offset([(shape[axis], present[axis]) for axis in each], variable, step))
                step *= math.prod([shape[axis] for axis in each if present[axis]])
            return tuple(reversed(found))

        self._of = RowLines(kernel, rows, ("tile", "count", "part"), terms, lambda read: read.terms[-1] == "i")
        self._lines = self._of.lines
        self._store(_CHEAP if self._parts == 1 else math.inf)
        if sum([self._size(line) * self._itemsize(line) for line in self._lines if line.stored]) > _STORED_BYTES:
            self._store(math.inf)

    def _store(self, most: float) -> None:
        """Store values in arrays that reductions read, or that take more than ``most`` operations to compute again."""
        for line in self._lines:
            line.stored = ""
        for line in self._lines:
            for read in line.reads:
                if isinstance(read, Line) and read.is_element:
                    if line.reduction:
                        read.stored = read.stored or (
                            "row" if self._rows.length <= _TILE and self._parts == 1 else "tile"
                        )
                    elif line.loop > read.loop and self._cost(read, most) > most:
                        read.stored = "row"

    def _cost(self, line: Line, most: float) -> int:
        """Return the number of operations to compute an element again, up to more than ``most``."""
        total, pending, seen = 0, [line], {id(line)}
        while pending:
            each = pending.pop()
            total += each.weight
            for read in each.reads:
                if isinstance(read, Line) and read.is_element and read.stored != "row" and id(read) not in seen:
                    if total > most:
                        return total
                    seen.add(id(read))
                    pending.append(read)
        return total

    def _size(self, line: Line) -> int:
        return self._length if line.stored == "row" else min(self._length, _TILE)

    def _itemsize(self, line: Line) -> int:
        return {"f64": 8, "f32": 4}.get(line.kind, 1)

    # -- text ----------------------------------------------------------------------------------------------------

    def code(self) -> KernelCode:
        """Return the code."""
        kernel, length = self._kernel, self._rows.length
        rows = math.prod(self._rows.kept)
        title = f"{counted(kernel.nodes)} on {rows} row{'s' * (rows > 1)} of {length} elements"
        values = self._of.values
        text = KernelText(kernel, title, values, self._of.is_array)
        for line in self._lines:
            if line.stored:
                kind = "uint8_t" if line.kind == "int" else line.kind
                line.array = line.name if line.stored == "row" else values.unused(f"{line.name}_tile")
                text.add(f"{kind} {line.array}[{self._size(line)}];")
        text.loop("row", "stop", "start")
        for loop in range(self._of.loops):
            self._add_loop(text, loop)
        return KernelCode(
            kernel.name,
            text.ended(),
            text.lines,
            values.reads,
            self._of.strides(),
            rows,
            length,
        )

    def _add_loop(self, text: KernelText, loop: int) -> None:
        """Add the lines of a row in a loop, and the values per row before and after it."""
        for line in self._of.per_row(loop):
            text.compute(line.node, f"{self._target(line)} = {self._value(line, loop)};")
        body, reductions = self._of.elements(loop), self._of.reductions(loop)
        if (reductions and self._parts > 1) or any(line.stored == "tile" and line.loop == loop for line in body):
            self._add_tiles(text, body, reductions, loop)
            return
        if body:
            depth = text.depth if self._parts == 1 else text.loop("part", self._parts)
            self._add_body(text, body, loop, "0", str(self._length), "i")
            text.close(depth)
        for line in reductions:
            text.compute(line.node, f"{self._target(line)} = {self._reduced(line)};")

    def _add_tiles(self, text: KernelText, body: list[Line], reductions: list[Line], loop: int) -> None:
        """Add a loop in tiles, whose partial results are combined."""
        states: dict[int, str] = {}
        for line in reductions:
            states[id(line)] = state = self._of.values.unused(f"{line.name}_so_far")
            first = "{0}" if line.reduction == "sum" else "INFINITY" if line.reduction == "min" else "-INFINITY"
            kind = f"total_{line.kind}" if line.reduction == "sum" else line.kind
            text.compute(line.node, f"{kind} {state} = {first};")
        depth = text.depth
        if self._parts > 1:
            text.loop("part", self._parts)
        tile, count = "", str(self._length)
        if self._length > _TILE:
            tile, count = "tile", "count"
            text.open(f"for (int64_t tile = 0; tile < {self._length}; tile += {_TILE})")
            rest = self._length % _TILE
            size = str(_TILE) if not rest else f"tile + {_TILE} > {self._length} ? {rest} : {_TILE}"
            text.add(f"const int64_t count = {size};")
        if body:
            first, last = ("tile", "tile + count") if tile else ("0", count)
            self._add_body(text, body, loop, first, last, "i - tile" if tile else "i")
        for line in reductions:
            state, part = states[id(line)], f"{self._row_pointer(line.reads[0], tile)}, {count}"
            if line.reduction == "sum":
                text.compute(line.node, f"add_{line.kind}(&{state}, {part});")
            else:
                combine = "minimum" if line.reduction == "min" else "maximum"
                value = f"{combine}_{line.kind}({state}, {line.reduction}_{line.kind}({part}))"
                text.compute(line.node, f"{state} = {value};")
        text.close(depth)
        for line in reductions:
            state = states[id(line)]
            value = f"result_{line.kind}(&{state})" if line.reduction == "sum" else state
            text.compute(line.node, f"{self._target(line)} = {value};")

    def _add_body(self, text: KernelText, body: list[Line], loop: int, first: str, last: str, in_tile: str) -> None:
        text.add("VECTORIZE")
        depth = text.loop("i", last, first)
        for line in body:
            value = self._value(line, loop, in_tile)
            if line is self._of.result or not (line.stored and line.loop == loop):
                target = self._target(line)
            else:
                target = f"{line.array}[{'i' if line.stored == 'row' else in_tile}]"
            text.compute(line.node, f"{target} = {value};")
        text.close(depth)

    def _target(self, line: Line) -> str:
        """Return the beginning of the C line that defines a value outside arrays."""
        if line is self._of.result:
            whole = f"part * {math.prod(self._rows.kept) * self._length} + " if self._parts > 1 else ""
            return f"{line.name}[{whole}row * {self._length} + i]" if line.is_element else f"{line.name}[row]"
        return f"{line.kind} {line.name}"

    def _value(self, line: Line, loop: int, in_tile: str = "i") -> str:
        """Return the C expression of a line in a loop."""
        return line.template.format(*[self._read(read, loop, in_tile) for read in line.reads])

    def _read(self, source: Source, loop: int, in_tile: str) -> str:
        """Return the C expression of what a line reads."""
        if isinstance(source, str):
            return source
        if isinstance(source, Line):
            if source.is_element and source.stored and (source.loop == loop or source.stored == "row"):
                return f"{source.array}[{'i' if source.stored == 'row' else in_tile}]"
            return source.name
        return self._of.element_of(source)

    def _reduced(self, line: Line) -> str:
        """Return the call that combines the elements of a whole row."""
        return f"{line.reduction}_{line.kind}({self._row_pointer(line.reads[0], '')}, {self._length})"

    def _row_pointer(self, source: Source, tile: str) -> str:
        """Return the address of the elements that a reduction combines: of the row, or of the part that begins at
        ``tile``."""
        if isinstance(source, Line):
            return f"{source.array} + {tile}" if tile and source.stored == "row" else source.array
        assert isinstance(source, Read)
        return " + ".join(filter(None, (self._of.values.name(source.node), *source.terms[:-1], tile)))
