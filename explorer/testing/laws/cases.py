"""Cases for checks: operations with operands from their examples, or with random operands."""

from __future__ import annotations

import inspect
from typing import NamedTuple

import numpy as np

from explorer.core.errors import ExplorerError, OperandError
from explorer.core.ir.expr import Operation
from explorer.core.ir.operation_examples import Example, Real, real
from explorer.core.types.tensor_type import Array, TensorType

_SHAPES: tuple[tuple[int, ...], ...] = ((2, 3), (3, 3), (4,), (), (2, 3, 4), (1, 2, 5, 5))
"""shapes of random operands if no example fits; the first shape that the operation accepts is used"""


class Case(NamedTuple):
    """An operation and one of its examples."""

    operation: Operation
    example: Example

    def arrays(self, dtype: str | None = None, seed: int = 0) -> list[Array]:
        """Return random operands for ``seed``; ``dtype``, if given, replaces floating dtypes."""
        drawn = self.example.draw(seed)
        return [array.astype(dtype) if dtype is not None and array.dtype.kind == "f" else array for array in drawn]

    @property
    def types(self) -> tuple[TensorType, ...]:
        """Types of the operands."""
        return tuple(TensorType(operand.shape, np.dtype(operand.dtype)) for operand in self.example.operands)

    @property
    def operand_names(self) -> tuple[str, ...]:
        """Names of the operands from the kernel's signature."""
        count = len(self.example.operands)
        parameters = list(inspect.signature(type(self.operation).kernel).parameters.values())[2:]
        if len(parameters) == count and all(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters):
            return tuple(each.name for each in parameters)
        return ("x",) if count == 1 else tuple(f"operand {index}" for index in range(count))


def floating(example: Example) -> list[int]:
    """Return the indices of the floating operands."""
    return [index for index, each in enumerate(example.operands) if isinstance(each, Real) and each.dtype[0] == "f"]


def cases_of(operation: Operation | type[Operation]) -> list[Case]:
    """Return the cases of an operation, or of all examples of an operation class.

    If no example has the operation's attributes, operands are taken from other examples or drawn at random. Raises
    OperandError if the operation accepts none of them.
    """
    operation_class = operation if isinstance(operation, type) else type(operation)
    examples = operation_class.examples
    if isinstance(operation, type):
        cases = [Case(operation(**example.attributes), example) for example in examples]
    else:
        same = [example for example in examples if operation_class(**example.attributes) is operation]
        cases = [Case(operation, example) for example in same or examples if _accepts(operation, example)]
        cases = cases or [Case(operation, example) for example in _drawn(operation) if _accepts(operation, example)][:1]
    if not cases:
        raise OperandError(
            f"a check of {operation_class.name}, which has no example",
            rule="an operation must have an example, because it accepts none of the drawn operands",
            fix="examples = (ex.Example(ex.real(2, 3)),) in its class body, with valid shapes and ranges",
        )
    return cases


def _accepts(operation: Operation, example: Example) -> bool:
    try:
        operation.type_of(Case(operation, example).types)
    except ExplorerError:
        return False
    return True


def _drawn(operation: Operation) -> list[Example]:
    count = operation.count_operands()
    return [Example(*[real(*shape)] * (2 if count is None else count)) for shape in _SHAPES]
