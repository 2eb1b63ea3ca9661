"""Memory layout of a kernel's operands, and the positions of their elements in the loops over its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from explorer.core.ir.expr import Expr
from explorer.plan.codegen.indexing import Strides, distances, offset
from explorer.plan.codegen.kernel_code import KernelSpec


class Operands:
    """Operands that are broadcast to the result of a kernel, and factors of a product, which have other shapes.

    The index of an operand is its position in ``reads``. ``factors`` are the required strides of the factors by uid. An
    elementwise operation can also read a factor if it has the memory layout of an operand that is broadcast.
    """

    def __init__(
        self, kernel: KernelSpec, reads: Sequence[Expr], factors: Mapping[int, Strides] = MappingProxyType({})
    ) -> None:
        self._reads, self._factors = reads, factors
        self._shape, self._order = kernel.result.shape, kernel.order
        shape, rank = self._shape, len(self._shape)
        self.present = [
            [axis >= rank - len(read.shape) and read.shape[axis - rank] == shape[axis] > 1 for axis in range(rank)]
            for read in reads
        ]
        """for each operand, whether it has elements along each axis of the result"""

    def is_array(self, index: int) -> bool:
        """Return whether an operand is read as an array, not as one number."""
        return self._reads[index].uid in self._factors or any(self.present[index])

    def offset(self, index: int, row: str, column: str) -> str | None:
        """Return the position of an element of an operand as a C expression; None if the operand has one element.

        Args:
            index: the operand.
            row: C variable that counts the result's elements along all axes but the innermost in memory.
            column: C expression of the position along the innermost axis.
        """
        present, (*outer, inner) = self.present[index], self._order
        if not any(present):
            return None
        step = self._shape[inner] if present[inner] else 1
        rows = offset([(self._shape[axis], present[axis]) for axis in outer], row, step)
        return " + ".join([term for term in (rows, column if present[inner] else "") if term])

    @property
    def strides(self) -> list[Strides]:
        """Strides that the code requires of each operand, for the axes along which it has elements."""
        return [*map(self._strides, range(len(self._reads)))]

    def _strides(self, index: int) -> Strides:
        read, present = self._reads[index], self.present[index]
        if (strides := self._factors.get(read.uid)) is not None:
            return strides
        missing = len(self._shape) - len(read.shape)
        return distances(read.shape, [axis - missing for axis in self._order if present[axis]])
