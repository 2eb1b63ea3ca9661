"""Elementwise operators with broadcasting, which since opset 7 follows NumPy's rules.

Operator types that differ from an explorer operation only in name are rows of explorer/names/operations.py. The
functions below behave differently, for example integer division towards zero, or one-sided tests for infinities.
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


def _register_unary(type: str, operation: str) -> None:
    @operator(type)
    def unary(x: First) -> Expr:
        result: Expr = function(operation)(x)
        return base.cast(result, x.dtype)  # ONNX keeps float16 and integer dtypes, while NumPy widens some of them

    unary.__doc__ = f"Compute {operation} elementwise."


for _type, _operation in names_in("onnx", UNARY).items():
    _register_unary(_type, _operation)


def _register_binary(type: str, operation: str) -> None:
    @operator(type)
    def binary(A: Expr, B: Expr) -> Expr:
        result: Expr = function(operation)(A, B)
        return result

    binary.__doc__ = f"Compute {operation} elementwise."


for _type, _operation in names_in("onnx", BINARY).items():
    _register_binary(_type, _operation)


@operator("Not")
def not_(X: Expr) -> Expr:
    """Return the negation of a condition."""
    return function("logical_not")(X)  # type: ignore[no-any-return]  # looked up by its name


@operator("Div")
def divide(A: Expr, B: Expr) -> Expr:
    """Return A / B; for integers, the quotient is rounded towards zero."""
    # C truncates and NumPy floors. Both agree once C's remainder is subtracted, which makes A a multiple of B.
    return floor_divide(A - truncated_remainder(A, B), B) if A.dtype.kind in "iu" else A / B


@operator("Mod")
def modulo(A: Expr, B: Expr, *, fmod: int = 0) -> Expr:
    """Return the remainder of A / B, with the sign of B, or of A if ``fmod`` is set."""
    return truncated_remainder(A, B) if fmod else remainder(A, B)


@operator("Pow")
def power(X: Expr, Y: Expr) -> Expr:
    """Return X to the power of Y, in the dtype of X."""
    return base.cast(X**Y, X.dtype)


@operator("Where")
def where_(condition: Expr, X: Expr, Y: Expr) -> Expr:
    """Return X where the condition is true, and Y elsewhere."""
    return where(condition, X, Y)


def _register_folded(type: str, pair: Operation) -> None:
    @operator(type)
    def folded(*data: Expr) -> Expr:
        return reduce(pair, data)

    folded.__doc__ = f"Return the elementwise {pair.name} of any number of operands."


_register_folded("Max", maximum)
_register_folded("Min", minimum)


@operator("Sum")
def sum_(*data: Expr) -> Expr:
    """Return the sum of any number of operands."""
    return add_n(*data)


@operator("Mean")
def mean(*data: Expr) -> Expr:
    """Return the mean of any number of operands."""
    return _mean(*data)


@rounded_once
def _mean(*terms: Expr) -> Expr:
    return add_n(*terms) / len(terms)


@operator("IsNaN")
def is_nan(X: Expr) -> Expr:
    """Return whether each element is NaN."""
    return isnan(X)


@operator("IsInf")
def is_infinite(X: Expr, *, detect_positive: int = 1, detect_negative: int = 1) -> Expr:
    """Return whether each element is infinite; the attributes select the signs to detect."""
    if detect_positive and detect_negative:
        return isinf(X)
    if detect_positive or detect_negative:
        return X == (np.inf if detect_positive else -np.inf)
    return full(X.shape, False, np.bool_)


@operator("BitwiseNot")
def bitwise_not(X: Expr) -> Expr:
    """Invert every bit."""
    if X.dtype.kind not in "iub":
        raise OperandError(f"an operand {X.type}", rule="BitwiseNot: the elements must be integers or booleans")
    return X ^ full((), np.invert(np.zeros((), X.dtype)).item(), X.dtype)


@operator("BitShift")
def bit_shift(X: Expr, Y: Expr, *, direction: Literal["LEFT", "RIGHT"]) -> Expr:
    """Shift the bits of X left or right by Y positions."""
    return left_shift(X, Y) if direction == "LEFT" else right_shift(X, Y)
