"""Checks of operators that all formats share: ranks and shapes of operands, lengths of ranges.

A file's operators are hostile input. What NumPy would accept silently (a slice that is shorter than asked for, a bias
that broadcasts) is refused here, with the operand's name in the error.
"""

from __future__ import annotations

import math

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape


def with_rank(name: str, value: Expr, *axes: str) -> Expr:
    """Return an operand that must have the axes with these names; raises OperandError for more or fewer."""
    if value.ndim != len(axes):
        raise OperandError(f"{name} is {value.type}", rule=f"{name} must have the axes ({', '.join(axes)})")
    return value


def with_shape(name: str, value: Expr, shape: Shape) -> Expr:
    """Return an operand that must have this shape; raises OperandError, where a slice would be shorter, unseen."""
    if value.shape != shape:
        raise OperandError(f"{name} is {value.type}", rule=f"{name} must have the shape {shape}")
    return value


def with_one_dtype(**values: Expr) -> None:
    """Raise OperandError where operands, by their names, are of several dtypes, which NumPy would make one of."""
    if len({value.dtype for value in values.values()}) > 1:
        listed = ", ".join([f"{name} is {value.type}" for name, value in values.items()])
        raise OperandError(listed, rule=f"{', '.join(values)} must be of one dtype")


def range_length(start: float, end: float, step: float, operator: str) -> int:
    """Count the numbers from ``start`` to before ``end`` by ``step``; raises OperandError for a range without a length.

    Whole numbers are counted exactly.
    """
    numbers = (start, end, step)
    if not step or not all(isinstance(number, (int, float)) and math.isfinite(number) for number in numbers):
        raise OperandError(
            f"{operator} from {start} to {end} by {step}",
            rule="a range must begin and end at finite numbers, and go on by a step that is not 0",
        )
    # Python's ints have no bound: arrays made of larger ones would have objects for elements
    if not all(-(2**63) <= number < 2**63 for number in numbers if isinstance(number, int)):
        raise OperandError(
            f"{operator} from {start} to {end} by {step}", rule="the whole numbers of a range must be of 64 bits, int64"
        )
    if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        return max(0, -((start - end) // step))
    # bounded first: the quotient of a tiny step may be ∞, of which there is no int
    return math.ceil(min(max(0.0, (float(end) - float(start)) / float(step)), 2.0**80))
