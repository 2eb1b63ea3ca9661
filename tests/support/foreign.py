"""Element type and device declared outside the package, as a user declares them in a cell."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer as ex


class FixedPoint(ex.ElementType):
    """Fixed-point numbers with eight bits before and eight after the point."""

    storage = np.int16

    def decode(self, stored: Any) -> Any:
        return stored / 256

    def encode(self, numbers: Any) -> Any:
        return np.clip(np.rint(numbers * 256), -32768, 32767)


class Counting(ex.Device):
    """Device with its own memory that counts allocations and copies."""

    addressable = False

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.told: list[str] = []

    def empty(self, shape: Any, dtype: Any) -> Any:
        self.told.append("empty")
        return Block(np.empty(shape, dtype))

    def write(self, array: Any, values: Any) -> None:
        self.told.append("write")
        np.copyto(array.held, values)

    def read(self, array: Any) -> Any:
        self.told.append("read")
        return array.held.copy()


class Block:
    """Array of the counting device, which NumPy functions reject."""

    def __init__(self, held: Any) -> None:
        self.held, self.shape = held, held.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise AssertionError("an array of another device was read as NumPy's")


fixed = FixedPoint("fixed8")
there = Counting("conformance")


@ex.kernel("add", "subtract", "multiply", on=there)
def _arithmetic(operation: ex.Operation, out: Any, a: Any, b: Any) -> None:
    operation.kernel(out.held, a.held, b.held)


@ex.kernel("add_n", on=there)
def _sum(operation: ex.Operation, out: Any, *terms: Any) -> None:
    operation.kernel(out.held, *[term.held for term in terms])


@ex.kernel("matmul", on=there)
def _product(operation: ex.Operation, out: Any, a: Any, b: Any) -> Any:
    return Block(a.held @ b.held)
