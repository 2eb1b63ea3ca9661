"""Functions of single elements, and arithmetic of broadcast operands.

The types whose function is an operation of explorer under another name are rows of explorer/names/operations.py;
functions below are types that differ: integer division towards zero, two remainders, masks of one-sided infinities.
Broadcasting is NumPy's in both, since opset 7.
"""

from __future__ import annotations

from functools import reduce
from typing import Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.registry import function
from explorer.formats.onnx.operators.base.operator_inputs import First
from explorer.formats.onnx.operators.base.table import operator
from explorer.names.operations import BINARY, UNARY, names_in
from explorer.ops import base
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.arithmetic import add_n, maximum, minimum, where
from explorer.ops.elementwise.rounding_and_bits import floor_divide, left_shift, remainder, right_shift
from explorer.ops.elementwise.rounding_and_bits import fmod as truncated_remainder
from explorer.ops.elementwise.unary import isinf, isnan


def _enter_unary(type: str, records: str) -> None:
    @operator(type)
    def unary(x: First) -> Expr:
        result: Expr = function(records)(x)
        return base.cast(result, x.dtype)  # ONNX keeps the dtype of halves and integers, NumPy widens some

    unary.__doc__ = f"{records}, element by element."


for _type, _records in names_in("onnx", UNARY).items():
    _enter_unary(_type, _records)


def _enter_binary(type: str, records: str) -> None:
    @operator(type)
    def binary(A: Expr, B: Expr) -> Expr:
        result: Expr = function(records)(A, B)
        return result

    binary.__doc__ = f"{records}, element by element."


for _type, _records in names_in("onnx", BINARY).items():
    _enter_binary(_type, _records)


@operator("Not")
def not_(X: Expr) -> Expr:
    """Whether a condition does not hold."""
    return function("logical_not")(X)  # type: ignore[no-any-return]  # looked up by its name


@operator("Div")
def divide(A: Expr, B: Expr) -> Expr:
    """A / B; of integers the quotient towards zero."""
    # C truncates and NumPy floors; without the C remainder A is a multiple of B, where both agree.
    return floor_divide(A - truncated_remainder(A, B), B) if A.dtype.kind in "iu" else A / B


@operator("Mod")
def modulo(A: Expr, B: Expr, *, fmod: int = 0) -> Expr:
    """Remainder of a division, with the sign of B, or of A for fmod."""
    # C's fmod has the sign of A, Python's % that of B; the standard demands fmod=1 for real numbers
    return truncated_remainder(A, B) if fmod else remainder(A, B)


@operator("Pow")
def power(X: Expr, Y: Expr) -> Expr:
    """X to the power of Y, of the dtype of X."""
    return base.cast(X**Y, X.dtype)


@operator("Where")
def where_(condition: Expr, X: Expr, Y: Expr) -> Expr:
    """X where the condition holds, Y elsewhere."""
    return where(condition, X, Y)


def _enter_folded(type: str, pair: Operation) -> None:
    @operator(type)
    def folded(*data: Expr) -> Expr:
        return reduce(pair, data)

    folded.__doc__ = f"The {pair.name} of any number of operands, element by element."


_enter_folded("Max", maximum)
_enter_folded("Min", minimum)


@operator("Sum")
def sum_(*data: Expr) -> Expr:
    """The sum of any number of operands."""
    return add_n(*data)


@operator("Mean")
def mean(*data: Expr) -> Expr:
    """The mean of any number of operands."""
    return _mean(*data)


@rounded_once
def _mean(*terms: Expr) -> Expr:
    return add_n(*terms) / len(terms)


@operator("IsNaN")
def is_nan(X: Expr) -> Expr:
    """Whether an element is no number."""
    return isnan(X)


@operator("IsInf")
def is_infinite(X: Expr, *, detect_positive: int = 1, detect_negative: int = 1) -> Expr:
    """Whether an element is infinite, above or below."""
    if detect_positive and detect_negative:
        return isinf(X)
    if detect_positive or detect_negative:
        return X == (np.inf if detect_positive else -np.inf)
    return full(X.shape, False, np.bool_)


@operator("BitwiseNot")
def bitwise_not(X: Expr) -> Expr:
    """Every bit inverted."""
    if X.dtype.kind not in "iub":
        raise OperandError(f"an operand {X.type}", rule="BitwiseNot: the elements must be integers or booleans")
    return X ^ full((), np.invert(np.zeros((), X.dtype)).item(), X.dtype)


@operator("BitShift")
def bit_shift(X: Expr, Y: Expr, *, direction: Literal["LEFT", "RIGHT"]) -> Expr:
    """Bits of X shifted by Y up (LEFT) or down (RIGHT)."""
    return left_shift(X, Y) if direction == "LEFT" else right_shift(X, Y)
