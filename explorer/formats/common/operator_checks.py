"""Checks of operands that all formats share: ranks, shapes, dtypes, and lengths of ranges.

Files are untrusted input, and NumPy would silently accept some errors, such as slices that are too short or biases that
broadcast. These functions report them with the operand's name.
"""

from __future__ import annotations

import math

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape


def with_rank(name: str, value: Expr, *axes: str) -> Expr:
    """Return ``value`` if it has one axis for each name in ``axes``; otherwise raise OperandError."""
    if value.ndim != len(axes):
        raise OperandError(f"{name} is {value.type}", rule=f"{name} must have the axes ({', '.join(axes)})")
    return value


def with_shape(name: str, value: Expr, shape: Shape) -> Expr:
    """Return ``value`` if its shape is ``shape``; otherwise raise OperandError."""
    if value.shape != shape:
        raise OperandError(f"{name} is {value.type}", rule=f"{name} must have the shape {shape}")
    return value


def with_one_dtype(**values: Expr) -> None:
    """Raise OperandError if the named operands have different dtypes, which NumPy would promote silently."""
    if len({value.dtype for value in values.values()}) > 1:
        listed = ", ".join([f"{name} is {value.type}" for name, value in values.items()])
        raise OperandError(listed, rule=f"{', '.join(values)} must have the same dtype")


def range_length(start: float, end: float, step: float, operator: str) -> int:
    """Return the length of the range from ``start`` (inclusive) to ``end`` (exclusive) in steps of ``step``.

    The length of an integer range is exact. Raise OperandError if ``step`` is 0, if a bound is infinite, or if an
    integer has more than 64 bits.
    """
    numbers = (start, end, step)
    if not step or not all(isinstance(number, (int, float)) and math.isfinite(number) for number in numbers):
        raise OperandError(
            f"{operator} from {start} to {end} by {step}",
            rule="a range must begin and end at finite numbers, and its step must not be 0",
        )
    # Python integers are unbounded, and NumPy would convert larger ones to an object array
    if not all(-(2**63) <= number < 2**63 for number in numbers if isinstance(number, int)):
        raise OperandError(f"{operator} from {start} to {end} by {step}", rule="the integers of a range must fit int64")
    if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        return max(0, -((start - end) // step))
    # clipped, since the quotient may be ∞ for a tiny step, and ∞ cannot be converted to an integer
    return math.ceil(min(max(0.0, (float(end) - float(start)) / float(step)), 2.0**80))
