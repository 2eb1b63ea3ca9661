"""Lines of C code of kernels that combine the elements of rows.

A row consists of the elements along the axes that the kernel's reductions combine. Operations declare the lines of a
row in their class bodies (``Operation.c_rows``), such as ``total = sum({0})`` and ``{0} / total``; elementwise
operations are one line each.

A value is either one number per element or one per row. Lines of elements are grouped into loops, because a reduction
needs all elements before its result can be used: loop 0 computes elements that depend on no reduction, loop 1 those
that depend on reductions of elements of loop 0, and so on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape
from explorer.ops.base import EXPENSIVE, Elementwise, c_literal
from explorer.plan.codegen.elements import BOOLEAN, TYPES, c_expression, computed_dtype, is_numeric, suffix
from explorer.plan.codegen.indexing import Strides, distances
from explorer.plan.codegen.kernel_code import KernelSpec, Operands
from explorer.plan.codegen.values import Values

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
class Line:
    """Line of C code: a value that is one number per element or per row."""

    node: Expr
    name: str
    template: str
    """C expression, in which ``{0}`` … are the values that it reads"""
    reads: tuple[Source, ...]
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
class Read:
    """Operand from outside the kernel, as a line reads it."""

    node: Expr
    as_number: bool
    """whether a boolean is read as a number"""
    terms: tuple[str, ...]
    """terms of the element's offset, some of which may be "": of the row's beginning, and of the position in the row"""
    has_elements: bool
    """whether it has one number per element"""

    @property
    def is_array(self) -> bool:
        """Whether the operand has several elements, in the alignment with the line."""
        return any(self.terms)


Source: TypeAlias = "Line | Read | str"
"""what a line reads: another line, an array, or a literal"""


def _has_elements(source: Source) -> bool:
    """Return whether a source has one number per element."""
    return source.is_element if isinstance(source, Line) else isinstance(source, Read) and source.has_elements


class RowLines:
    """Lines of a kernel in topological order, and the operands that they read.

    Args:
        kernel: the kernel.
        rows: its rows.
        taken: further identifiers that the code defines.
        terms: returns the terms of an operand's offset, given for each axis whether the operand has elements along it.
        can_reduce: returns whether a reduction can combine the elements of an operand; if not, a line reads them first.
    """

    def __init__(
        self,
        kernel: KernelSpec,
        rows: Rows,
        taken: Iterable[str],
        terms: Callable[[Sequence[bool]], tuple[str, ...]],
        can_reduce: Callable[[Read], bool],
    ) -> None:
        self._rows, self._operands, self._order = rows, kernel.operands, kernel.order
        self._terms, self._can_reduce = terms, can_reduce
        self.values = Values(kernel, taken)
        self._value_of: dict[int, Line] = {}
        self.lines: list[Line] = []
        for node in kernel.nodes:
            self._add(node)
        self.result = self.lines[-1]
        self.loops = max([line.loop for line in self.lines]) + 1
        """number of loops"""

    def _add(self, node: Expr) -> None:
        """Add the lines of a node."""
        name = self.values.name(node)
        operation, operands = node.operation, self._operands(node)
        if isinstance(operation, Elementwise):
            dtype = computed_dtype(node, operands)
            numeric = is_numeric(node, dtype)
            template = c_expression(operation, dtype, [f"{{{index}}}" for index in range(len(operands))])
            reads = tuple([self._source(each, len(node.shape), numeric) for each in operands])
            kind = "int" if node.dtype == BOOLEAN else TYPES[node.dtype]
            line = Line(node, name, template, reads, kind, weight=operation.weight)
            self._append(line, self._rows.is_element(node.shape))
        else:
            self._add_rows(node, name)
        self._value_of[node.uid] = self.lines[-1]

    def _add_rows(self, node: Expr, name: str) -> None:
        """Add the lines that an operation declares in its class."""
        operands, rank = self._operands(node), len(self._rows.shape)
        own: dict[str, Source] = {
            f"{{{index}}}": self._source(each, rank, False) for index, each in enumerate(operands)
        }
        count = c_literal(self._rows.length, suffix(node.dtype))
        *inner, last = node.operation.c_rows
        for declared in [*inner, last]:
            if declared is last:
                identifier, expression = name, declared
            else:
                local, expression = declared.split(" = ", 1)
                identifier = self.values.unused(local)
            expression = expression.replace("{t}", suffix(node.dtype)).replace("{n}", count)
            kind = TYPES[node.dtype]
            if reduction := _REDUCTION.fullmatch(expression):
                source = own[reduction[2]]
                if not (isinstance(source, Line) or (isinstance(source, Read) and self._can_reduce(source))):
                    source = Line(node, self.values.unused("operand"), "{0}", (source,), kind)
                    self._append(source, True)
                line = Line(node, identifier, "", (source,), kind, reduction[1])
                self._append(line, False)
            else:
                pattern = "|".join([rf"\b{key}\b" if key.isidentifier() else re.escape(key) for key in own])
                reads: list[Source] = []

                def numbered(found: re.Match[str], reads: list[Source] = reads) -> str:
                    reads.append(own[found[0]])
                    return f"{{{len(reads) - 1}}}"

                template = re.sub(pattern, numbered, expression)
                weight = EXPENSIVE if re.search(r"exp|log", template) else 1
                line = Line(node, identifier, template, tuple(reads), kind, weight=weight)
                self._append(line, any(_has_elements(read) for read in reads))
            if declared is not last:
                own[local] = line

    def _append(self, line: Line, is_element: bool) -> None:
        line.is_element = is_element
        line.loop = max([read.loop + bool(read.reduction) for read in line.reads if isinstance(read, Line)], default=0)
        self.lines.append(line)

    def _source(self, operand: Expr, rank: int, as_number: bool) -> Source:
        """Return how a node reads an operand that is broadcast to ``rank`` axes."""
        if (literal := self.values.literal(operand)) is not None:
            return literal
        if (line := self._value_of.get(operand.uid)) is not None:
            return line
        present = self._present(operand, rank)
        return Read(operand, as_number, self._terms(present), any(present[axis] for axis in self._rows.axes))

    def _present(self, operand: Expr, rank: int) -> list[bool]:
        """Return for each axis whether an operand of a node with ``rank`` axes has elements along it."""
        shape, axes = self._rows
        aligned = [axis for axis in range(len(shape)) if rank == len(shape) or axis not in axes]
        present = [False] * len(shape)
        for axis, size in zip(reversed(aligned), reversed(operand.shape), strict=False):
            present[axis] = size == shape[axis] > 1
        return present

    # -- loops ---------------------------------------------------------------------------------------------------

    def reductions(self, loop: int) -> list[Line]:
        """Return the lines that combine the elements of a loop."""
        return [line for line in self.lines if line.reduction and line.loop == loop]

    def per_row(self, loop: int) -> list[Line]:
        """Return the lines of values per row that are computed before a loop."""
        return [line for line in self.lines if line.loop == loop and not line.is_element and not line.reduction]

    def elements(self, loop: int) -> list[Line]:
        """Return the lines of elements that a loop computes."""
        needed: set[int] = set()
        for line in reversed(self.lines):
            if line.is_element and line.loop == loop and (line.stored == "row" or line is self.result):
                needed.add(id(line))
            is_reduction = bool(line.reduction) and line.loop == loop
            if is_reduction or id(line) in needed:
                for read in line.reads:
                    if isinstance(read, Line) and read.is_element and not (read.stored == "row" and read.loop < loop):
                        needed.add(id(read))
        return [line for line in self.lines if id(line) in needed]

    # -- arrays --------------------------------------------------------------------------------------------------

    def is_array(self, index: int) -> bool:
        """Return whether an operand, by its index, is read as an array, not as one number."""
        uid = self.values.reads[index].uid
        return any(read.is_array and read.node.uid == uid for _, read in self._reading())

    def element_of(self, read: Read) -> str:
        """Return the C expression of the number that a line reads from outside the kernel."""
        name = self.values.name(read.node)
        if read.is_array:
            name = f"{name}[{' + '.join(filter(None, read.terms))}]"
        # Any nonzero byte of a boolean array is true, and 1 as a number, as in NumPy.
        return f"({name} != 0)" if read.as_number and read.node.dtype == BOOLEAN else name

    def strides(self) -> tuple[Strides, ...]:
        """Return (axis, distance in elements) for the axes along which each operand, and the result, has elements."""
        shape = self.result.node.shape
        order = self._order if len(shape) == len(self._order) else range(len(shape))
        return (*map(self._strides_of, self.values.reads), distances(shape, order))

    def _strides_of(self, operand: Expr) -> Strides:
        rank = next(
            len(line.node.shape) if isinstance(line.node.operation, Elementwise) else len(self._rows.shape)
            for line, read in self._reading()
            if read.node is operand
        )
        shape, axes = self._rows
        aligned = [axis for axis in range(len(shape)) if rank == len(shape) or axis not in axes]
        present = self._present(operand, rank)
        missing = len(aligned) - len(operand.shape)
        return distances(operand.shape, [aligned.index(axis) - missing for axis in self._order if present[axis]])

    def _reading(self) -> list[tuple[Line, Read]]:
        """Return each operand from outside with each line that reads it."""
        return [(line, read) for line in self.lines for read in line.reads if isinstance(read, Read)]
