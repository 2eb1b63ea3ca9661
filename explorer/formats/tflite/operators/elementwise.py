"""Functions of single elements, arithmetic of broadcast operands, and casts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.registry import function
from explorer.formats.common.operator_checks import with_one_dtype
from explorer.formats.tflite.operators.activation import activated
from explorer.formats.tflite.operators.integer_arithmetic import is_quantized
from explorer.formats.tflite.operators.quantized_arithmetic import combined, compared, multiplied, quotient, squared
from explorer.formats.tflite.operators.quantized_functions import negated, rooted
from explorer.formats.tflite.operators.quantized_tables import looked_up
from explorer.formats.tflite.operators.table import check_real, operator
from explorer.names.operations import BINARY, UNARY, names_in
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import members, required
from explorer.ops import base
from explorer.ops.creation.constants import zeros
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import square

_TABLES = ("ABS", "EXP", "LOG", "RSQRT")
"""types that quantised numbers have by tables"""
_QUANTIZED_UNARY = {"SQRT": rooted, "NEG": negated}
"""types that they have by arithmetic of their own"""
_EXTREMES = ("MAXIMUM", "MINIMUM")
"""types whose results are elements of operands"""
_ORDERS = ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")
_QUANTIZED: dict[str, Callable[[OperatorContext, Expr, Expr], Expr]] = {
    "SUB": partial(combined, minus=True),
    "DIV": quotient,
}
"""types that quantised numbers have by arithmetic of their own"""
_WIDE = ("pot_scale_int16",)
"""options that count for sums of 16 bits alone"""
_REAL = ("DIV", "POW", "ATAN2")
"""types whose result is a real number in NumPy's terms; those of whole numbers round by rules of their own"""


def operands(op: OperatorContext) -> tuple[Expr, Expr]:
    """Return two operands, which must be of one dtype."""
    x, y = required(op, "x"), required(op, "y")
    with_one_dtype(x=x, y=y)
    return x, y


def _enter_unary(type: str, records: str) -> None:
    @operator(type, quantized=type in (*_TABLES, *_QUANTIZED_UNARY))
    def unary(op: OperatorContext) -> Expr:
        x = required(op, "input")
        if is_quantized(op, "input"):
            return looked_up(op, x, type) if type in _TABLES else _QUANTIZED_UNARY[type](op, x)
        check_real(op)
        result: Expr = function(records)(x)
        return base.cast(result, x.dtype)

    unary.__doc__ = f"{records}, element by element."


for _type, _records in names_in("tflite", UNARY).items():
    _enter_unary(_type, _records)


def _enter_binary(type: str, records: str, real: bool) -> None:
    @operator(
        type, moves=type in _EXTREMES, quantized=type in (*_QUANTIZED, *_ORDERS), ignored=_WIDE if type == "SUB" else ()
    )
    def binary(op: OperatorContext) -> Expr:
        x, y = operands(op)
        if is_quantized(op, "x") and is_quantized(op, "y"):
            if type in _ORDERS:
                return compared(op, x, y, records)
            if type in _QUANTIZED:
                return _QUANTIZED[type](op, x, y)
        if type not in _EXTREMES:
            check_real(op)
        if real and x.dtype.kind != "f":
            raise OperandError(f"x is {x.type}", rule=f"{type}: operands must be of real numbers")
        return activated(op, function(records)(x, y))

    binary.__doc__ = f"{records}, element by element, of broadcast operands."


for _type, _records in names_in("tflite", BINARY).items():
    _enter_binary(_type, _records, _type in _REAL)


@operator("ADD", quantized=True, ignored=_WIDE)
def add(op: OperatorContext) -> Expr:
    """The sum of broadcast operands; of quantised numbers, that in a finer scale of both."""
    x, y = operands(op)
    if is_quantized(op, "x") and is_quantized(op, "y"):
        return combined(op, x, y)
    check_real(op)
    return activated(op, x + y)


@operator("MUL", quantized=True)
def multiply(op: OperatorContext) -> Expr:
    """The product of broadcast operands; of quantised numbers, in the scale of the result."""
    x, y = operands(op)
    if not (is_quantized(op, "x") and is_quantized(op, "y")):
        check_real(op)
        return activated(op, x * y)
    return multiplied(op, x, y)


@operator("SQUARED_DIFFERENCE", quantized=True)
def squared_difference(op: OperatorContext) -> Expr:
    """(x − y)²."""
    x, y = operands(op)
    if is_quantized(op, "x") and is_quantized(op, "y"):
        return squared(op, x, y)
    check_real(op)
    return square(x - y)


@operator("ADD_N")
def add_n(op: OperatorContext) -> Expr:
    """The sum of all operands, from the first to the last."""
    values = members(op, "inputs")
    with_one_dtype(**{f"inputs.{place}": value for place, value in enumerate(values)})
    return reduce(lambda total, value: total + value, values)


@operator("SELECT", "SELECT_V2", moves=True)
def select(op: OperatorContext) -> Expr:
    """x where the condition holds, else y."""
    condition, (x, y) = required(op, "condition"), operands(op)
    if op.definition.type == "SELECT" and condition.shape not in ((), x.shape):
        raise OperandError(
            f"condition is {condition.type}, x {x.type}", rule="SELECT: the condition must be one, or one an element"
        )
    return where(condition, x, y)


# the numbers as they are stored, whatever they stand for
@operator("CAST", quantized=True, ignored=("in_data_type", "out_data_type"))
def cast(op: OperatorContext) -> Expr:
    """The same numbers in another dtype; fractions are cut off."""
    target = op.argument("output.dtype")
    try:
        dtype = np.dtype(target)
    except TypeError:
        dtype = np.dtype("V")
    if dtype.kind not in "biufc":
        raise OperandError(f"the result is of {target!r}", rule="CAST: elements must become numbers that NumPy has")
    return base.cast(required(op, "input"), dtype)


@operator("ZEROS_LIKE")
def zeros_like(op: OperatorContext) -> Expr:
    """As many zeros."""
    x = required(op, "input")
    return zeros(x.shape, x.dtype)
