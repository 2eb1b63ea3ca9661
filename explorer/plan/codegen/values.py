"""Values in the code of a kernel: the arrays that it reads, numbers that are literals, and the name of each value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from explorer.core.ir.expr import Expr
from explorer.ops.base import Elementwise, c_literal
from explorer.ops.creation.constants import Full
from explorer.plan.codegen.elements import (
    DEFINED,
    as_number,
    c_expression,
    computed_dtype,
    declaration,
    is_numeric,
    suffix,
)
from explorer.plan.codegen.kernel_code import KernelSpec
from explorer.plan.codegen.names import RESERVED, Identifiers, c_identifier


class Values:
    """Operands from outside a kernel, and the identifiers of all values in its code.

    ``taken`` are further identifiers that the code defines.
    """

    def __init__(self, kernel: KernelSpec, taken: Iterable[str] = ()) -> None:
        nodes, self._result, self._operands = kernel.nodes, kernel.result, kernel.operands
        used = dict.fromkeys(operand for node in nodes for operand in self._operands(node))
        inside = {node.uid for node in nodes}
        outside = [operand for operand in used if operand.uid not in inside]
        self._literals = {
            operand.uid: c_literal(operand.operation.value, suffix(operand.dtype))
            for operand in outside
            if isinstance(operand.operation, Full) and operand.dtype.kind == "f"
        }
        self.reads = tuple([operand for operand in outside if operand.uid not in self._literals])
        """operands that the code reads from arrays, in the order of the arrays"""
        self._index = {read.uid: index for index, read in enumerate(self.reads)}
        self._identifiers = Identifiers({*RESERVED, *DEFINED, *taken})
        self._names = {node.uid: self.unused(c_identifier(kernel.name_of(node))) for node in (*self.reads, *nodes)}

    def unused(self, base: str) -> str:
        """Return an identifier that begins with ``base``, and that no value has."""
        return self._identifiers.unused(base)

    def literal(self, node: Expr) -> str | None:
        """Return the C literal of an operand from outside the kernel that is one number, else None."""
        return self._literals.get(node.uid)

    def name(self, node: Expr) -> str:
        """Return the identifier of the value of an operand or node."""
        return self._names[node.uid]

    def lines(
        self,
        nodes: Iterable[Expr],
        target: str,
        offset: Callable[[int], str | None],
    ) -> Iterator[tuple[Expr, str]]:
        """Yield each elementwise node with the C line that computes its element.

        Args:
            nodes: elementwise nodes in topological order.
            target: C expression of the element of the kernel's result.
            offset: returns the position of the element in an array, as a C expression; None for a scalar.
        """
        for node in nodes:
            operands = self._operands(node)
            dtype = computed_dtype(node, operands)
            assert isinstance(node.operation, Elementwise)
            value = c_expression(
                node.operation, dtype, [self._element(each, is_numeric(node, dtype), offset) for each in operands]
            )
            left = target if node is self._result else declaration(node, self.name(node))
            yield node, f"{left} = {value};"

    def _element(self, node: Expr, is_number: bool, offset: Callable[[int], str | None]) -> str:
        """Return the C expression of an element of an operand; ``is_number``: in an operation on numbers."""
        if (number := self.literal(node)) is not None:
            return number
        element, index = self.name(node), self._index.get(node.uid)
        if index is None:
            return element
        if (position := offset(index)) is not None:
            element = f"{element}[{position or '0'}]"
        return as_number(node, element) if is_number else element
