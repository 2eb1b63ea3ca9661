"""C code of kernels whose reductions combine axes before the innermost ones, such as the sum over the rows of a matrix.

The innermost axes are columns. The code is a loop over rows, each of which is added to a result row. More than 256 rows
are added in blocks, whose sums are added to the result. Threads divide the columns, or the axes before the reduced
ones, so they do not change the order. Values of elements that a later loop reads are computed again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from explorer.plan.codegen.indexing import offset
from explorer.plan.codegen.kernel_code import KernelCode, KernelSpec
from explorer.plan.codegen.kernel_text import KernelText, counted
from explorer.plan.codegen.row_lines import Line, Read, RowLines, Rows, Source

_STRIP = 256
"""number of columns that are the smallest part of the work of a thread"""
_TILE = 1024
"""maximum number of columns that are computed at once, a multiple of a strip; their results fit into the cache"""
_BLOCK = 256
"""number of rows whose sum is added to the result, so that each number passes through few additions"""
_FIRST = {"sum": "0", "min": "INFINITY", "max": "-INFINITY", "largest": "-INFINITY"}
"""value from which a reduction begins"""


def column_code(kernel: KernelSpec, rows: Rows) -> KernelCode | None:
    """Return the C code of a kernel, or None if axes that the reductions combine are apart, or are the innermost."""
    axes = [axis for axis in kernel.order if rows.shape[axis] > 1]
    runs = [[*run] for _, run in groupby(axes, lambda axis: axis in rows.axes)]
    if axes and axes[0] in rows.axes:
        runs.insert(0, [])
    return _Writer(kernel, rows, *runs).code() if len(runs) == 3 else None


class _Writer:
    """Writes the code of one kernel, whose axes are: ``outer``, those that the reductions combine, and ``inner``."""

    def __init__(
        self, kernel: KernelSpec, rows: Rows, outer: Sequence[int], reduced: Sequence[int], inner: Sequence[int]
    ) -> None:
        self._kernel, self._length = kernel, rows.length
        self._count, self._columns = (math.prod([rows.shape[axis] for axis in axes]) for axes in (outer, inner))

        def terms(present: Sequence[bool]) -> tuple[str, ...]:
            found, step = [], 1
            for axes, variable in ((inner, "column"), (reduced, "row"), (outer, "part")):
                found.append(offset([(rows.shape[axis], present[axis]) for axis in axes], variable, step))
                step *= math.prod([rows.shape[axis] for axis in axes if present[axis]])
            return tuple(reversed(found))

        taken = ("part", "row", "column", "first", "last", "end", "block", "block_end")
        self._of = RowLines(kernel, rows, taken, terms, lambda read: True)
        for line in self._of.lines:
            is_read_later = line.reduction or any(
                line in reader.reads and (reader.is_element or reader.loop > line.loop) for reader in self._of.lines
            )
            if not line.is_element and line is not self._of.result and is_read_later:
                line.array = line.name
        self._blocks = {
            id(line): self._of.values.unused(f"{line.name}_of_block")
            for line in self._of.lines
            if line.reduction == "sum" and self._length > _BLOCK
        }
        """names of arrays with the sum of a block, by the id of the line"""

    def code(self) -> KernelCode:
        """Return the code."""
        kernel, columns = self._kernel, self._columns
        title = f"{counted(kernel.nodes)} on {self._length} rows of {columns} elements"
        if self._count > 1:
            title = f"{counted(kernel.nodes)} on {self._count} times {self._length} rows of {columns} elements"
        text = KernelText(kernel, title, self._of.values, self._of.is_array)
        for line in self._of.lines:
            if line.array:
                text.add(f"{line.kind} {line.array}[{min(columns, _TILE)}];")
            if id(line) in self._blocks:
                text.add(f"{line.kind} {self._blocks[id(line)]}[{min(columns, _TILE)}];")
        strips = -(-columns // _STRIP)
        first, end = "0", str(columns)
        if self._count > 1:
            text.loop("part", "stop", "start")
        elif strips > 1:
            first, end = f"start * {_STRIP}", "end"
            text.add(f"const int64_t end = stop * {_STRIP} < {columns} ? stop * {_STRIP} : {columns};")
        if columns > _TILE:
            text.open(f"for (int64_t first = {first}; first < {end}; first += {_TILE})")
            text.add(f"const int64_t last = first + {_TILE} < {end} ? first + {_TILE} : {end};")
            first, end = "first", "last"
        elif first != "0":
            text.add(f"const int64_t first = {first};")
            first = "first"
        for loop in range(self._of.loops):
            self._add_loop(text, loop, first, end)
        length = self._count if self._count > 1 else strips
        return KernelCode(
            kernel.name,
            text.ended(),
            text.lines,
            self._of.values.reads,
            self._of.strides(),
            length,
            self._count * self._length * columns // length,
            columns=columns,
        )

    def _add_loop(self, text: KernelText, loop: int, first: str, end: str) -> None:
        """Add a loop over rows that computes elements and combines them, after the values per column before it."""
        per_column, reductions = self._of.per_row(loop), self._of.reductions(loop)
        if per_column or reductions:
            depth = self._open(text, first, end)
            for line in per_column:
                text.compute(line.node, f"{self._target(line, first)} = {self._value(line, first)};")
            for line in reductions:
                text.compute(line.node, f"{self._target(line, first)} = {_FIRST[line.reduction]};")
            text.close(depth)
        elements = self._of.elements(loop)
        if not (elements or reductions):
            return
        sums = [line for line in reductions if id(line) in self._blocks]
        if sums:
            around = text.open(f"for (int64_t block = 0; block < {self._length}; block += {_BLOCK})")
            whole = self._length % _BLOCK == 0
            last = f"{'' if whole else f'{self._length} - block < {_BLOCK} ? {self._length} : '}block + {_BLOCK}"
            text.add(f"const int64_t block_end = {last};")
            depth = self._open(text, first, end)
            for line in sums:
                text.compute(line.node, f"{self._so_far(line, first)} = 0;")
            text.close(depth)
        depth = text.loop("row", "block_end", "block") if sums else text.loop("row", self._length)
        self._open(text, first, end)
        for line in elements:
            text.compute(line.node, f"{self._target(line, first)} = {self._value(line, first)};")
        for line in reductions:
            text.compute(line.node, _combined(line, self._so_far(line, first), self._read(line.reads[0], first)))
        text.close(depth)
        if sums:
            self._open(text, first, end)
            for line in sums:
                text.compute(line.node, f"{self._target(line, first)} += {self._so_far(line, first)};")
            text.close(around)

    def _open(self, text: KernelText, first: str, end: str) -> int:
        """Begin a loop over columns."""
        text.add("VECTORIZE")
        return text.loop("column", end, first)

    def _target(self, line: Line, first: str) -> str:
        """Return the beginning of the C line that defines a value."""
        if line is self._of.result:
            return f"{line.name}[{self._result_offset(line)}]"
        return _of_column(line.array, first) if line.array else f"{line.kind} {line.name}"

    def _so_far(self, line: Line, first: str) -> str:
        """Return the C expression of the value of a reduction before all rows are combined."""
        block = self._blocks.get(id(line))
        return self._target(line, first) if block is None else _of_column(block, first)

    def _result_offset(self, line: Line) -> str:
        columns, rows = self._columns, self._length
        part = f"part * {columns * (rows if line.is_element else 1)}" if self._count > 1 else ""
        row = (f"row * {columns}" if columns > 1 else "row") if line.is_element else ""
        return " + ".join(filter(None, (part, row, "column")))

    def _value(self, line: Line, first: str) -> str:
        return line.template.format(*[self._read(read, first) for read in line.reads])

    def _read(self, source: Source, first: str) -> str:
        """Return the C expression of what a line reads."""
        if isinstance(source, Read):
            return self._of.element_of(source)
        if isinstance(source, Line):
            return _of_column(source.array, first) if source.array else source.name
        return source


def _of_column(array: str, first: str) -> str:
    """Return the element of an array that begins at the column ``first``."""
    return f"{array}[column]" if first == "0" else f"{array}[column - {first}]"


def _combined(line: Line, target: str, element: str) -> str:
    """Return the C line that combines a result so far with an element."""
    if line.reduction == "sum":
        return f"{target} += {element};"
    if line.reduction == "largest":
        return f"{target} = {element} > {target} ? {element} : {target};"
    return f"{target} = {line.reduction}imum_{line.kind}({target}, {element});"
