"""C code of the steps of a scan: its products, and the elementwise operations between them.

A product by a matrix that is the same in all steps is one C function, and BLAS computes the others. One C function
computes all values between two products, or from the last product to the results. An operation reads elements at its
own position, so slices of the last axis, such as the gates of an LSTM, only change an offset. Each operation is one
line for each slice of its value that is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call, Parameter
from explorer.core.types.tensor_type import Shape, TensorType
from explorer.ops.base import Elementwise, c_literal
from explorer.ops.creation.constants import Full
from explorer.ops.linalg.matmul import Matmul
from explorer.ops.manipulation.slicing import Slice
from explorer.plan.codegen.elements import (
    DEFINED,
    TYPES,
    as_number,
    c_expression,
    computed_dtype,
    declaration,
    expression_obstacle,
    is_numeric,
    suffix,
)
from explorer.plan.codegen.indexing import offset
from explorer.plan.codegen.kernel_code import PLAIN, KernelSpec, Naming, Obstacle, ScanBody, StepFunction, StepsCode
from explorer.plan.codegen.kernel_text import FunctionText, counted
from explorer.plan.codegen.names import RESERVED, Identifiers, c_identifier
from explorer.plan.codegen.products import product_code


class _Column(NamedTuple):
    """Column of an element that the inner loop reads: ``first``, or ``first`` + i."""

    moves: bool
    first: int


def keeps_rows(axis: int, rank: int) -> bool:
    """Return whether the elements of a sequence have rows of adjacent numbers without a copy.

    ``axis`` is the step axis, and ``rank`` the rank of an element: the first axis, or the one before the last, counts
    steps.
    """
    return axis in (0, rank - 1)


def steps_code(body: ScanBody, name: str, naming: Naming = PLAIN) -> StepsCode | Obstacle:
    """Return the C functions and products of the steps of a scan, or the obstacle; ``name`` begins their names."""
    steps = _Steps(body)
    return steps.obstacle or steps.code(name, naming)


class _Steps:
    """Divides the nodes of a step into functions and products."""

    def __init__(self, body: ScanBody) -> None:
        self.body = body
        states = body.scan.states + len(body.scan.axes)
        self._varies = {node.uid for node in body.parameters[:states]}
        """uids of values that may differ from step to step"""
        self.sources = {node.uid for node in body.nodes if isinstance(node.operation, Parameter)}
        """uids of values that are in arrays before a step"""
        self.invariant: list[Expr] = []
        self.depth: dict[int, int] = {}
        """uid of a value → number of products that it depends on, one after another"""
        self._products: list[Expr] = []
        self.obstacle = self._divide()

    def _divide(self) -> Obstacle | None:
        for node in self.body.nodes:
            operands = self.body.inputs.get(node.uid, ())
            depth = max([self.depth[operand.uid] for operand in operands], default=0)
            self.depth[node.uid] = depth
            if not isinstance(node.type, TensorType) or isinstance(node.operation, Call) or not node.operation.pure:
                return Obstacle("combines", node)
            if not node.type.plain:
                return Obstacle("dtype", node, {"dtype": str(node.dtype)})
            if node.uid in self.sources:
                continue
            if self._varies.isdisjoint(operand.uid for operand in operands):
                self.invariant.append(node)
                self.sources.add(node.uid)
                continue
            self._varies.add(node.uid)
            if type(node.operation) is Matmul and node.dtype in TYPES:
                self._products.append(node)
                self.sources.add(node.uid)
                self.depth[node.uid] = depth + 1
            elif isinstance(node.operation, Slice):
                if not _is_part_of_rows(node.operation, operands[0].shape):
                    return Obstacle("combines", node)
            elif not node.operation.elementwise:
                return Obstacle("combines", node)
            elif (obstacle := expression_obstacle(node, operands)) is not None:
                return obstacle
        for node in self.body.outputs:
            if node.tensor_type.dtype not in TYPES:
                return Obstacle("dtype", node, {"dtype": str(node.tensor_type.dtype)})
        return None

    def code(self, name: str, naming: Naming) -> StepsCode:
        """Return the functions and products in their order."""
        # operands of products that a function must store
        stored: dict[int, Expr] = {}
        for product in self._products:
            for operand in self.body.inputs[product.uid]:
                if operand.uid not in self.sources:
                    stored[operand.uid] = operand
        parts: list[StepFunction | Expr] = []
        depths = max([self.depth[node.uid] for node in self._products], default=0)
        targets: dict[Shape, dict[Expr, list[Expr | int]]]
        for depth in range(depths + 1):
            targets = {}
            for operand in stored.values():
                if self.depth[operand.uid] == depth:
                    targets.setdefault(operand.shape, {})[operand] = [operand]
            parts += [_Writer(self, each, name, naming).function() for each in targets.values()]
            self.sources.update([node.uid for each in targets.values() for node in each])
            parts += [
                self._product(product, f"{name}_product", naming)
                for product in self._products
                if self.depth[product.uid] == depth + 1
            ]
        targets = {}
        for index, output in enumerate(self.body.outputs):
            targets.setdefault(output.shape, {}).setdefault(output, []).append(index)
        parts += [_Writer(self, each, name, naming).function() for each in targets.values()]
        return StepsCode(self.body, tuple(parts), tuple(self.invariant))

    def _product(self, node: Expr, name: str, naming: Naming) -> StepFunction | Expr:
        """Return the function of a product, or the product if BLAS computes it."""
        left, right = self.body.inputs[node.uid]
        scan, parameters = self.body.scan, self.body.parameters
        axes = dict(zip([each.uid for each in parameters[scan.states :]], scan.axes, strict=False))
        if right.uid in self._varies or axes.get(left.uid, 0):  # the rows of an element are not adjacent
            return node
        order = tuple(range(len(node.shape)))
        inputs = self.body.inputs
        code = product_code(
            KernelSpec(
                (node,), lambda each: inputs[each.uid], name, order, (), {right.uid}, naming.name_of, naming.origins
            )
        )
        if code is None:
            return node
        return StepFunction(code.name, code.text, code.lines, code.reads, (node,), code.length, code.packed)


def _is_part_of_rows(operation: Slice, shape: Shape) -> bool:
    """Return whether a slice consists of adjacent elements of all rows."""
    *outer, last = operation.spans
    return (
        all(span == (0, size, 1) for span, size in zip(outer, shape, strict=False))
        and not isinstance(last, int)
        and last[2] == 1
    )


class _Writer:
    """Writes the function that computes values of one shape; ``targets`` are the arrays to which each is written."""

    def __init__(self, steps: _Steps, targets: Mapping[Expr, Sequence[Expr | int]], name: str, naming: Naming) -> None:
        self._steps, self._body, self._name, self._naming = steps, steps.body, name, naming
        self._targets = targets
        self._shape = next(iter(targets)).shape
        self._identifiers = Identifiers({*RESERVED, *DEFINED, "step", "at"})
        self._columns = self._needed_columns()
        scan, parameters = self._body.scan, self._body.parameters
        self._axes = dict(zip([node.uid for node in parameters[scan.states :]], scan.axes, strict=False))
        self._reads = [
            node
            for node in self._body.nodes
            if node.uid in self._columns and node.uid in steps.sources and not _is_literal(node)
        ]
        self._names = {node.uid: self._unused(node) for node in self._reads}
        self._writes = [target for each in targets.values() for target in each]
        self._is_flat = all(self._covers_rows(node) for node in self._reads) and all(
            self._distance_of_target(target) == self._row for target in self._writes
        )

    def _needed_columns(self) -> dict[int, list[_Column]]:
        """Return the columns of each value that the function computes or reads."""
        columns: dict[int, list[_Column]] = {node.uid: [_Column(True, 0)] for node in self._targets}
        for node in reversed(self._body.nodes):
            if node.uid in columns and node.uid not in self._steps.sources:
                for operand in self._body.inputs[node.uid]:
                    needed = columns.setdefault(operand.uid, [])
                    needed += [
                        column
                        for column in dict.fromkeys(_column_of(node, operand, each) for each in columns[node.uid])
                        if column not in needed
                    ]
        return columns

    def _unused(self, node: Expr) -> str:
        return self._identifiers.unused(c_identifier(self._naming.name_of(node)))

    @property
    def _row(self) -> int:
        return self._shape[-1] if self._shape else 1

    def _covers_rows(self, node: Expr) -> bool:
        """Return whether an operand has the elements of the results in the same order, or is one number."""
        return node.tensor_type.size == 1 or (
            node.shape == self._shape and self._distance(node) == self._row and self._columns[node.uid] == [(True, 0)]
        )

    def _distance(self, node: Expr) -> int:
        """Return the distance of the rows of an operand."""
        return self._row_distance(node.shape, self._axes.get(node.uid, 0))

    def _distance_of_target(self, target: Expr | int) -> int:
        scan = self._body.scan
        if isinstance(target, int) and target >= scan.states:
            return self._row_distance(self._shape, scan.out_axes[target - scan.states])
        return self._row_distance(self._shape, 0)

    def _row_distance(self, shape: Shape, axis: int) -> int:
        row = shape[-1] if shape else 1
        return row * self._body.scan.length if axis and keeps_rows(axis, len(shape)) else row

    def function(self) -> StepFunction:
        """Return the function."""
        shape, scan = self._shape, self._body.scan
        lines, values = self._lines()
        sizes = "×".join(map(str, shape)) or "1"
        operations = [*dict.fromkeys(node for node, _ in lines)]
        title = f"{counted(operations)} on {sizes} elements in each of {scan.length} steps"
        text = FunctionText(self._name, title, self._naming.origins)
        text.loop("step", "stop", "start")
        text.add(f"void *const *at = arrays + step * {len(self._reads) + len(self._writes)};")
        for index, node in enumerate(self._reads):
            text.operand(node, self._names[node.uid], f"at[{index}]", node.tensor_type.size > 1)
        targets = {target: self._name_of_target(target) for target in self._writes}
        for index, (target, name) in enumerate(targets.items(), len(self._reads)):
            node = self._body.outputs[target] if isinstance(target, int) else target
            text.add(f"{TYPES[node.dtype]} *{name} = at[{index}];")
        rows = math.prod(shape[:-1])
        has_rows = rows > 1 and not self._is_flat
        if has_rows:
            text.loop("row", rows)
        text.add("VECTORIZE")
        text.loop("i", math.prod(shape) if self._is_flat else self._row)
        for node, line in lines:
            text.compute(node, line)
        for node, targets_of_node in self._targets.items():
            value = values[node.uid, _Column(True, 0)]
            for target in targets_of_node:
                start = f"row * {self._distance_of_target(target)} + " if has_rows else ""
                text.compute(node, f"{targets[target]}[{start}i] = {value};")
        return StepFunction(self._name, text.ended(), text.lines, tuple(self._reads), tuple(self._writes))

    def _name_of_target(self, target: Expr | int) -> str:
        scan = self._body.scan
        if not isinstance(target, int):
            base = f"stored_{c_identifier(self._naming.name_of(target))}"
        elif target < scan.states:
            base = f"next_{c_identifier(self._naming.name_of(self._body.parameters[target]))}"
        else:
            base = "output"
        return self._identifiers.unused(base)

    def _lines(self) -> tuple[list[tuple[Expr, str]], dict[tuple[int, _Column], str]]:
        """Return (node, line) for each operation, and the C expression of each column of each value."""
        lines: list[tuple[Expr, str]] = []
        values: dict[tuple[int, _Column], str] = {}
        for node in self._body.nodes:
            for column in self._columns.get(node.uid, ()):
                if node.uid in self._names:
                    value = self._element(node, column)
                elif _is_literal(node):
                    value = c_literal(node.operation.value, suffix(node.dtype))  # type: ignore[attr-defined]
                else:
                    operands = self._body.inputs[node.uid]
                    elements = [values[each.uid, _column_of(node, each, column)] for each in operands]
                    if isinstance(node.operation, Slice):
                        (value,) = elements
                    else:
                        value = self._unused(node)
                        lines.append((node, f"{declaration(node, value)} = {self._expression(node, elements)};"))
                values[node.uid, column] = value
        return lines, values

    def _expression(self, node: Expr, elements: Sequence[str]) -> str:
        """Return the C expression of an elementwise node of ``elements`` of its operands."""
        operands = self._body.inputs[node.uid]
        dtype = computed_dtype(node, operands)
        assert isinstance(node.operation, Elementwise)
        if is_numeric(node, dtype):
            elements = [as_number(each, element) for each, element in zip(operands, elements, strict=True)]
        return c_expression(node.operation, dtype, elements)

    def _element(self, node: Expr, column: _Column) -> str:
        """Return the C expression of an element of an array."""
        name = self._names[node.uid]
        if node.tensor_type.size == 1:
            return name
        if self._is_flat:
            return f"{name}[i]"
        missing = len(self._shape) - len(node.shape)
        axes = [
            (size, axis >= missing and node.shape[axis - missing] == size > 1)
            for axis, size in enumerate(self._shape[:-1])
        ]
        terms = [offset(axes, "row", self._distance(node)), "i" if column.moves else "", str(column.first or "")]
        return f"{name}[{' + '.join([term for term in terms if term]) or '0'}]"


def _column_of(node: Expr, operand: Expr, column: _Column) -> _Column:
    """Return the column of an operand that a column of ``node`` reads."""
    if isinstance(node.operation, Slice):
        return _Column(column.moves, column.first + node.operation.spans[-1][0])
    if not operand.shape or operand.shape[-1] < node.shape[-1]:
        return _Column(False, 0)
    return column


def _is_literal(node: Expr) -> bool:
    return isinstance(node.operation, Full) and node.dtype.kind == "f"
