"""Rows of a table by number."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.example import Example, integers, real
from explorer.core.expr import Expr
from explorer.core.operation import Operation, as_operands
from explorer.core.registry import public
from explorer.core.types import AnyType, Array, Shape, TensorType
from explorer.ops.base import reshape
from explorer.ops.joining import Stack
from explorer.ops.parts import Member


class Embedding(Operation):
    """The rows of a table (rows, …) at whole numbers of any shape: their shape, then the row's."""

    examples = (Example(real(5, 3), integers(2, 4, high=5)), Example(real(5, 2, 2), integers(3, high=5)))

    def infer(self, table: TensorType, numbers: TensorType) -> TensorType:
        if not table.shape or numbers.dtype.kind not in "iu":
            raise self.refuse((table, numbers), "the table has rows, and they are chosen by whole numbers")
        return table.with_shape((*numbers.shape, *table.shape[1:]))

    def kernel(self, out: Array, table: Array, numbers: Array) -> Array:
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < len(table)):
            wrong = int(numbers.min()) if numbers.min() < 0 else int(numbers.max())
            raise ValueError(f"row {wrong} of a table with rows 0 … {len(table) - 1}")
        return np.take(table, numbers, axis=0, out=out, mode="clip")  # checked above; "raise" would buffer the result

    def gradient(self, g: Expr, y: Expr, table: Expr, numbers: Expr) -> tuple[Expr, None]:
        return EmbeddingGradient(table.shape)(g, numbers), None

    def batch(self, size: int, batched: tuple[bool, ...], table: Expr, numbers: Expr) -> Expr:
        if not batched[0]:
            return self(table, numbers)
        members = [self(Member(i)(table), Member(i)(numbers) if batched[1] else numbers) for i in range(size)]
        return Stack()(*members)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0


class EmbeddingGradient(Operation):
    """The adjoint of reading rows: each row of g added to the row of zeros of ``shape`` that it was read from."""

    shape: Shape
    linear = True
    examples = (Example(real(2, 4, 3), integers(2, 4, high=5), shape=(5, 3)),)

    def infer(self, g: TensorType, numbers: TensorType) -> TensorType:
        if numbers.dtype.kind not in "iu" or g.shape != (*numbers.shape, *self.shape[1:]):
            raise self.refuse((g, numbers), "rows are chosen by whole numbers, and g has a row for each")
        return g.with_shape(self.shape)

    def kernel(self, out: Array, g: Array, numbers: Array) -> Array:
        out[...] = 0
        np.add.at(out, numbers, g)
        return out

    def gradient(self, upstream: Expr, y: Expr, g: Expr, numbers: Expr) -> tuple[Expr, None]:
        return Embedding()(upstream, numbers), None

    def batch(self, size: int, batched: tuple[bool, ...], g: Expr, numbers: Expr) -> Expr:
        def part(node: Expr, yes: bool, index: int) -> Expr:
            return Member(index)(node) if yes else node

        members = [self(part(g, batched[0], i), part(numbers, batched[1], i)) for i in range(size)]
        return reshape(Stack()(*members), (size, *self.shape))

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return types[0].size


@public
def embedding(table: Any, numbers: Any) -> Expr:
    """Rows of ``table`` (rows, …) at ``numbers`` (any shape, whole): numbers.shape + table.shape[1:]."""
    return Embedding()(*as_operands((table, numbers)))
