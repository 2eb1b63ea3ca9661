"""C code of kernels that combine the elements of rows: reductions and normalizations with elementwise operations.

A row consists of the elements along the innermost axes, which the kernel's reductions combine. The code is a loop over
rows, which threads divide. Operations declare the lines of a row in their class bodies (``Operation.c_rows``), such as
``total = sum({0})`` and ``{0} / total``; elementwise operations are one line each.

A value is either one number per element or one per row. Lines of elements are grouped into loops, because a reduction
needs all elements before its result can be used: loop 0 computes elements that depend on no reduction, loop 1 those
that depend on reductions of elements of loop 0, and so on. Values that a later loop reads are computed again if they
are cheap, else they are stored in an array of the row's size. Long rows are divided into tiles, so that reductions need
only an array of the tile's size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape
from explorer.ops.base import EXPENSIVE, Elementwise, c_literal
from explorer.plan.codegen.elements import (
    BOOLEAN,
    TYPES,
    are_defined,
    c_expression,
    computed_dtype,
    expression_obstacle,
    has_rows,
    is_numeric,
    suffix,
)
from explorer.plan.codegen.indexing import distances, offset
from explorer.plan.codegen.kernel_code import KernelCode, KernelSpec, Obstacle, Operands
from explorer.plan.codegen.kernel_text import KernelText, counted
from explorer.plan.codegen.values import Values

_CHEAP = 4
"""maximum number of operations that are computed again instead of stored"""
_TILE = 2048
"""number of elements of a row that are computed at once, a multiple of a sum's blocks"""
_STORED_BYTES = 1 << 18
"""maximum number of bytes of arrays in a function, which are on the thread's stack; values of longer rows are computed
again"""
_REDUCTION = re.compile(r"(sum|max|min|largest)\((\w+|\{\d+\})\)")


class Rows(NamedTuple):
    """Rows of a kernel: the shape of values with one number per element, and the axes that its reductions combine."""

    shape: Shape
    axes: tuple[int, ...]

    @property
    def kept(self) -> Shape:
        """Shape of values with one number per row and all axes."""
        return tuple([1 if axis in self.axes else size for axis, size in enumerate(self.shape)])

    @property
    def length(self) -> int:
        """Number of elements in a row."""
        return math.prod([self.shape[axis] for axis in self.axes])

    def is_element(self, shape: Shape) -> bool:
        """Return whether a value of a shape has one number per element, not one per row."""
        return shape == self.shape and self.length > 1


def rows_of(nodes: Sequence[Expr], operands: Operands) -> Rows | None:
    """Return the rows of a kernel, or None if its reductions combine different axes or shapes."""
    found = {
        (operands(node)[0].shape, node.operation.reduced_axes)
        for node in nodes
        if node.operation.reduced_axes is not None and not node.operation.elementwise
    }
    if len(found) != 1:
        return None
    ((shape, axes),) = found
    return Rows(shape, axes) if axes else None


@dataclass(eq=False, slots=True)
class _Line:
    """Line of C code: a value that is one number per element or per row."""

    node: Expr
    name: str
    template: str
    """C expression, in which ``{0}`` … are the values that it reads"""
    reads: tuple[_Source, ...]
    kind: str
    """C type"""
    reduction: str = ""
    """function that combines the elements of its operand; "" if there is none"""
    is_element: bool = False
    weight: int = 1
    """approximate number of operations"""
    loop: int = 0
    """index of the loop that computes an element, or that comes after a value per row is known"""
    stored: str = ""
    """whether the value is in an array for later loops ("row"), only for reductions ("tile"), or in none ("")"""
    array: str = ""
    """name of this array"""


@dataclass(frozen=True, slots=True)
class _Read:
    """Operand from outside the kernel, as a line reads it."""

    node: Expr
    as_number: bool
    """whether a boolean is read as a number"""
    row: str
    """offset of the elements of a row"""
    column: str
    """offset of an element in its row"""

    @property
    def is_array(self) -> bool:
        """Whether the operand has several elements, in the alignment with the line."""
        return bool(self.row or self.column)


_Source: TypeAlias = "_Line | _Read | str"
"""what a line reads: another line, an array, or a literal"""


def _has_elements(source: _Source) -> bool:
    """Return whether a source has one number per element."""
    return source.is_element if isinstance(source, _Line) else isinstance(source, _Read) and bool(source.column)


def row_code(kernel: KernelSpec) -> KernelCode | Obstacle:
    """Return the C code of a kernel that combines the elements of rows, or the obstacle."""
    nodes, operands = kernel.nodes, kernel.operands
    for node in nodes:
        if (obstacle := _obstacle(node, operands(node))) is not None:
            return obstacle
    rows = rows_of(nodes, operands)
    reduction = next(node for node in nodes if not node.operation.elementwise)
    if rows is None or not rows.is_element(kernel.result.shape):
        kernel = kernel._replace(order=range(len(operands(reduction)[0].shape)))
    if rows is None or not _are_innermost(rows, kernel.order):
        return Obstacle("columns", reduction)
    return _Writer(kernel, rows).code()


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


def _are_innermost(rows: Rows, order: Sequence[int]) -> bool:
    """Return whether the axes of rows are the innermost in memory, apart from axes of size 1."""
    axes = [axis for axis in order if rows.shape[axis] > 1]
    reduced = [axis for axis in axes if axis in rows.axes]
    return bool(reduced) and axes[-len(reduced) :] == reduced


class _Writer:
    """Writes the code of one kernel."""

    def __init__(self, kernel: KernelSpec, rows: Rows) -> None:
        self._kernel, self._rows = kernel, rows
        self._operands, self._order = kernel.operands, kernel.order
        self._values = Values(kernel, ("tile", "count"))
        self._reads = self._values.reads
        self._value_of: dict[int, _Line] = {}
        self._lines: list[_Line] = []
        for node in kernel.nodes:
            self._add(node)
        self._result_line = self._lines[-1]
        self._length = rows.length
        self._store(_CHEAP)
        if sum([self._size(line) * self._itemsize(line) for line in self._lines if line.stored]) > _STORED_BYTES:
            self._store(math.inf)

    def _add(self, node: Expr) -> None:
        """Add the lines of a node."""
        name = self._values.name(node)
        operation, operands = node.operation, self._operands(node)
        if isinstance(operation, Elementwise):
            dtype = computed_dtype(node, operands)
            numeric = is_numeric(node, dtype)
            template = c_expression(operation, dtype, [f"{{{index}}}" for index in range(len(operands))])
            reads = tuple([self._source(each, len(node.shape), numeric) for each in operands])
            kind = "int" if node.dtype == BOOLEAN else TYPES[node.dtype]
            line = _Line(node, name, template, reads, kind, weight=operation.weight)
            self._append(line, self._rows.is_element(node.shape))
        else:
            self._add_rows(node, name)
        self._value_of[node.uid] = self._lines[-1]

    def _add_rows(self, node: Expr, name: str) -> None:
        """Add the lines that an operation declares in its class."""
        operands, rank = self._operands(node), len(self._rows.shape)
        own: dict[str, _Source] = {
            f"{{{index}}}": self._source(each, rank, False) for index, each in enumerate(operands)
        }
        count = c_literal(self._rows.length, suffix(node.dtype))
        *inner, last = node.operation.c_rows
        for declared in [*inner, last]:
            if declared is last:
                identifier, expression = name, declared
            else:
                local, expression = declared.split(" = ", 1)
                identifier = self._values.unused(local)
            expression = expression.replace("{t}", suffix(node.dtype)).replace("{n}", count)
            kind = TYPES[node.dtype]
            if reduction := _REDUCTION.fullmatch(expression):
                source = own[reduction[2]]
                if not (isinstance(source, _Line) or (isinstance(source, _Read) and source.column == "i")):
                    source = _Line(node, self._values.unused("operand"), "{0}", (source,), kind)
                    self._append(source, True)
                line = _Line(node, identifier, "", (source,), kind, reduction[1])
                self._append(line, False)
            else:
                pattern = "|".join([rf"\b{key}\b" if key.isidentifier() else re.escape(key) for key in own])
                reads: list[_Source] = []

                def numbered(found: re.Match[str], reads: list[_Source] = reads) -> str:
                    reads.append(own[found[0]])
                    return f"{{{len(reads) - 1}}}"

                template = re.sub(pattern, numbered, expression)
                weight = EXPENSIVE if re.search(r"exp|log", template) else 1
                line = _Line(node, identifier, template, tuple(reads), kind, weight=weight)
                self._append(line, any(_has_elements(read) for read in reads))
            if declared is not last:
                own[local] = line

    def _append(self, line: _Line, is_element: bool) -> None:
        line.is_element = is_element
        line.loop = max([read.loop + bool(read.reduction) for read in line.reads if isinstance(read, _Line)], default=0)
        self._lines.append(line)

    def _source(self, operand: Expr, rank: int, as_number: bool) -> _Source:
        """Return how a node reads an operand that is broadcast to ``rank`` axes."""
        if (literal := self._values.literal(operand)) is not None:
            return literal
        if (line := self._value_of.get(operand.uid)) is not None:
            return line
        present = self._present(operand, rank)
        shape, axes = self._rows
        outer = [(shape[axis], present[axis]) for axis in self._order if axis not in axes]
        inner = [(shape[axis], present[axis]) for axis in self._order if axis in axes]
        width = math.prod([size for size, is_present in inner if is_present])
        return _Read(operand, as_number, offset(outer, "row", width), offset(inner, "i"))

    def _present(self, operand: Expr, rank: int) -> list[bool]:
        """Return for each axis whether an operand of a node with ``rank`` axes has elements along it."""
        shape, axes = self._rows
        aligned = [axis for axis in range(len(shape)) if rank == len(shape) or axis not in axes]
        present = [False] * len(shape)
        for axis, size in zip(reversed(aligned), reversed(operand.shape), strict=False):
            present[axis] = size == shape[axis] > 1
        return present

    # -- loops ---------------------------------------------------------------------------------------------------

    def _store(self, most: float) -> None:
        """Store values in arrays that reductions read, or that take more than ``most`` operations to compute again."""
        for line in self._lines:
            line.stored = ""
        for line in self._lines:
            for read in line.reads:
                if isinstance(read, _Line) and read.is_element:
                    if line.reduction:
                        read.stored = read.stored or ("row" if self._length <= _TILE else "tile")
                    elif line.loop > read.loop and self._cost(read, most) > most:
                        read.stored = "row"

    def _cost(self, line: _Line, most: float) -> int:
        """Return the number of operations to compute an element again, up to more than ``most``."""
        total, pending, seen = 0, [line], {id(line)}
        while pending:
            each = pending.pop()
            total += each.weight
            for read in each.reads:
                if isinstance(read, _Line) and read.is_element and read.stored != "row" and id(read) not in seen:
                    if total > most:
                        return total
                    seen.add(id(read))
                    pending.append(read)
        return total

    def _size(self, line: _Line) -> int:
        return self._length if line.stored == "row" else _TILE

    def _itemsize(self, line: _Line) -> int:
        return {"f64": 8, "f32": 4}.get(line.kind, 1)

    def _body(self, loop: int) -> list[_Line]:
        """Return the lines of elements that a loop computes."""
        needed: set[int] = set()
        for line in reversed(self._lines):
            if line.is_element and line.loop == loop and (line.stored == "row" or line is self._result_line):
                needed.add(id(line))
            is_reduction = bool(line.reduction) and line.loop == loop
            if is_reduction or id(line) in needed:
                for read in line.reads:
                    if isinstance(read, _Line) and read.is_element and not (read.stored == "row" and read.loop < loop):
                        needed.add(id(read))
        return [line for line in self._lines if id(line) in needed]

    # -- text ----------------------------------------------------------------------------------------------------

    def code(self) -> KernelCode:
        """Return the code."""
        kernel, length = self._kernel, self._length
        rows = math.prod(self._rows.kept)
        title = f"{counted(kernel.nodes)} on {rows} row{'s' * (rows > 1)} of {length} elements"
        arrays = {
            read.node.uid for line in self._lines for read in line.reads if isinstance(read, _Read) and read.is_array
        }
        text = KernelText(kernel, title, self._values, lambda index: self._reads[index].uid in arrays)
        for line in self._lines:
            if line.stored:
                kind = "uint8_t" if line.kind == "int" else line.kind
                line.array = line.name if line.stored == "row" else self._values.unused(f"{line.name}_tile")
                text.add(f"{kind} {line.array}[{self._size(line)}];")
        text.loop("row", "stop", "start")
        for loop in range(max([line.loop for line in self._lines]) + 1):
            self._add_loop(text, loop)
        shape = kernel.result.shape
        order = self._order if len(shape) == len(self._order) else range(len(shape))
        result = distances((axis, shape[axis]) for axis in order)
        return KernelCode(
            kernel.name,
            text.ended(),
            text.lines,
            self._reads,
            (*map(self._strides, self._reads), result),
            rows,
            length,
        )

    def _add_loop(self, text: KernelText, loop: int) -> None:
        """Add the lines of a row in a loop, and the values per row before and after it."""
        for line in self._lines:
            if line.loop == loop and not line.is_element and not line.reduction:
                text.compute(line.node, f"{self._target(line)} = {self._value(line, loop, ())};")
        body = self._body(loop)
        reductions = [line for line in self._lines if line.reduction and line.loop == loop]
        if any(line.stored == "tile" and line.loop == loop for line in body):
            self._add_tiles(text, body, reductions, loop)
            return
        if body:
            self._add_body(text, body, loop, "0", str(self._length), "i")
        for line in reductions:
            text.compute(line.node, f"{self._target(line)} = {self._reduced(line)};")

    def _add_tiles(self, text: KernelText, body: list[_Line], reductions: list[_Line], loop: int) -> None:
        """Add a loop in tiles, whose partial results are combined."""
        states: dict[int, str] = {}
        for line in reductions:
            states[id(line)] = state = self._values.unused(f"{line.name}_so_far")
            first = "{0}" if line.reduction == "sum" else "INFINITY" if line.reduction == "min" else "-INFINITY"
            kind = f"total_{line.kind}" if line.reduction == "sum" else line.kind
            text.compute(line.node, f"{kind} {state} = {first};")
        depth = text.open(f"for (int64_t tile = 0; tile < {self._length}; tile += {_TILE})")
        rest = self._length % _TILE
        count = str(_TILE) if not rest else f"tile + {_TILE} > {self._length} ? {rest} : {_TILE}"
        text.add(f"const int64_t count = {count};")
        self._add_body(text, body, loop, "tile", "tile + count", "i - tile")
        for line in reductions:
            state, part = states[id(line)], f"{self._row_pointer(line.reads[0], 'tile')}, count"
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

    def _add_body(self, text: KernelText, body: list[_Line], loop: int, first: str, last: str, in_tile: str) -> None:
        text.add("VECTORIZE")
        depth = text.loop("i", last, first)
        for line in body:
            value = self._value(line, loop, body, in_tile)
            if line is self._result_line or not (line.stored and line.loop == loop):
                target = self._target(line)
            else:
                target = f"{line.array}[{'i' if line.stored == 'row' else in_tile}]"
            text.compute(line.node, f"{target} = {value};")
        text.close(depth)

    def _target(self, line: _Line) -> str:
        """Return the beginning of the C line that defines a value outside arrays."""
        if line is self._result_line:
            return f"{line.name}[row * {self._length} + i]" if line.is_element else f"{line.name}[row]"
        return f"{line.kind} {line.name}"

    def _value(self, line: _Line, loop: int, body: Sequence[_Line], in_tile: str = "i") -> str:
        """Return the C expression of a line in a loop."""
        return line.template.format(*[self._read(read, loop, body, in_tile) for read in line.reads])

    def _read(self, source: _Source, loop: int, body: Sequence[_Line], in_tile: str) -> str:
        """Return the C expression of what a line reads."""
        if isinstance(source, str):
            return source
        if isinstance(source, _Line):
            if source.is_element and source.stored and (source.loop == loop or source.stored == "row"):
                return f"{source.array}[{'i' if source.stored == 'row' else in_tile}]"
            return source.name
        name = self._values.name(source.node)
        if source.is_array:
            name = f"{name}[{' + '.join([part for part in (source.row, source.column) if part])}]"
        # Any nonzero byte of a boolean array is true, and 1 as a number, as in NumPy.
        return f"({name} != 0)" if source.as_number and source.node.dtype == BOOLEAN else name

    def _reduced(self, line: _Line) -> str:
        """Return the call that combines the elements of a whole row."""
        return f"{line.reduction}_{line.kind}({self._row_pointer(line.reads[0], '')}, {self._length})"

    def _row_pointer(self, source: _Source, tile: str) -> str:
        """Return the address of the elements that a reduction combines: of the row, or of the part that begins at
        ``tile``."""
        if isinstance(source, _Line):
            return f"{source.array} + {tile}" if tile and source.stored == "row" else source.array
        assert isinstance(source, _Read)
        return " + ".join([part for part in (self._values.name(source.node), source.row, tile) if part])

    # -- memory layout -------------------------------------------------------------------------------------------

    def _strides(self, read: Expr) -> tuple[tuple[int, int], ...]:
        """Return (axis of the operand, distance in elements) for the axes along which an operand has elements."""
        rank = next(
            len(line.node.shape) if isinstance(line.node.operation, Elementwise) else len(self._rows.shape)
            for line in self._lines
            if any(isinstance(each, _Read) and each.node is read for each in line.reads)
        )
        shape, axes = self._rows
        aligned = [axis for axis in range(len(shape)) if rank == len(shape) or axis not in axes]
        present = self._present(read, rank)
        missing = len(aligned) - len(read.shape)
        return distances((aligned.index(axis) - missing, shape[axis]) for axis in self._order if present[axis])
