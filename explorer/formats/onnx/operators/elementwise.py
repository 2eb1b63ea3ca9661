"""Functions of single elements, and arithmetic of broadcast operands.

Two tables hold the types whose function is an operation of explorer under another name; builders below them are types
that differ: whole-number division towards zero, two remainders, masks of one-sided infinities. Broadcasting is NumPy's
in both, since opset 7.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import Operation
from explorer.core.registry import function
from explorer.formats.common.known_inputs import members, required
from explorer.formats.onnx.operators.base.operator_inputs import first
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.ops import base
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.arithmetic import add_n, maximum, minimum, where
from explorer.ops.elementwise.rounding_and_bits import floor_divide, fmod, left_shift, remainder, right_shift
from explorer.ops.elementwise.unary import isinf, isnan

UNARY = {
    "Abs": "absolute", "Acos": "arccos", "Acosh": "arccosh", "Asin": "arcsin", "Asinh": "arcsinh", "Atan": "arctan",
    "Atanh": "arctanh", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Floor": "floor",
    "Log": "log", "Neg": "negative", "Reciprocal": "reciprocal", "Round": "round_half_even", "Sigmoid": "sigmoid",
    "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Softplus": "softplus", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
    "Relu": "relu",
}  # fmt: skip
BINARY = {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Equal": "equal", "Less": "less", "LessOrEqual": "less_equal",
    "Greater": "greater", "GreaterOrEqual": "greater_equal", "And": "logical_and", "Or": "logical_or",
    "Xor": "not_equal", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor",
}  # fmt: skip


def _enter_unary(type: str, records: str) -> None:
    @operator(type)
    def unary(op: OperatorContext) -> Expr:
        x = first(op)
        result: Expr = function(records)(x)
        return base.cast(result, x.dtype)  # ONNX keeps the dtype of halves and whole numbers, NumPy widens some

    unary.__doc__ = f"{records}, element by element."


for _type, _records in UNARY.items():
    _enter_unary(_type, _records)


def _enter_binary(type: str, records: str) -> None:
    @operator(type)
    def binary(op: OperatorContext) -> Expr:
        result: Expr = function(records)(required(op, "A"), required(op, "B"))
        return result

    binary.__doc__ = f"{records}, element by element."


for _type, _records in BINARY.items():
    _enter_binary(_type, _records)


@operator("Not")
def not_(op: OperatorContext) -> Expr:
    """Whether a condition does not hold."""
    return function("logical_not")(required(op, "X"))  # type: ignore[no-any-return]  # looked up by its name


@operator("Div")
def divide(op: OperatorContext) -> Expr:
    """a / b; of whole numbers the quotient towards zero."""
    a, b = required(op, "A"), required(op, "B")
    # C truncates and NumPy floors; without the C remainder a is a multiple of b, where both agree.
    return floor_divide(a - fmod(a, b), b) if a.dtype.kind in "iu" else a / b


@operator("Mod")
def modulo(op: OperatorContext) -> Expr:
    """Remainder of a division, with the sign of b, or of a for fmod."""
    a, b = required(op, "A"), required(op, "B")
    # C's fmod has the sign of a, Python's % that of b; the standard demands fmod=1 for real numbers
    return fmod(a, b) if op.integer("fmod", 0) else remainder(a, b)


@operator("Pow")
def power(op: OperatorContext) -> Expr:
    """x to the power of y, of the dtype of x."""
    x = required(op, "X")
    return base.cast(x ** required(op, "Y"), x.dtype)


@operator("Where")
def where_(op: OperatorContext) -> Expr:
    """X where the condition holds, Y elsewhere."""
    return where(required(op, "condition"), required(op, "X"), required(op, "Y"))


def _enter_folded(type: str, pair: Operation) -> None:
    @operator(type)
    def folded(op: OperatorContext) -> Expr:
        return reduce(pair, members(op, "data"))

    folded.__doc__ = f"The {pair.name} of any number of operands, element by element."


_enter_folded("Max", maximum)
_enter_folded("Min", minimum)


@operator("Sum")
def sum_(op: OperatorContext) -> Expr:
    """The sum of any number of operands."""
    return add_n(*members(op, "data"))


@operator("Mean")
def mean(op: OperatorContext) -> Expr:
    """The mean of any number of operands."""
    return _mean(*members(op, "data"))


@rounded_once
def _mean(*terms: Expr) -> Expr:
    return add_n(*terms) / len(terms)


@operator("IsNaN")
def is_nan(op: OperatorContext) -> Expr:
    """Whether an element is no number."""
    return isnan(first(op))


@operator("IsInf")
def is_infinite(op: OperatorContext) -> Expr:
    """Whether an element is infinite, above or below."""
    x = first(op)
    above, below = (bool(op.integer(f"detect_{side}", 1)) for side in ("positive", "negative"))
    if above and below:
        return isinf(x)
    return x == (np.inf if above else -np.inf) if above or below else full(x.shape, False, np.bool_)


@operator("BitwiseNot")
def bitwise_not(op: OperatorContext) -> Expr:
    """Every bit the other way."""
    x = first(op)
    if x.dtype.kind not in "iub":
        raise OperandError(f"an operand {x.type}", rule="BitwiseNot: the elements must be whole numbers or booleans")
    return x ^ full((), np.invert(np.zeros((), x.dtype)).item(), x.dtype)


@operator("BitShift")
def bit_shift(op: OperatorContext) -> Expr:
    """Bits moved up (LEFT) or down (RIGHT)."""
    x, places = required(op, "X"), required(op, "Y")
    up = op.word("direction", "", ("LEFT", "RIGHT")) == "LEFT"
    return left_shift(x, places) if up else right_shift(x, places)
