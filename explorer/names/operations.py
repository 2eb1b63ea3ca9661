"""Names of explorer's elementwise operations in file formats.

Readers and writers use these tables for simple operator types. A name is "" if the format lacks the operation or uses
the name for another one. PyTorch's names occur in PNNX expressions and in ``aten``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Names(NamedTuple):
    """Names of an operation in file formats."""

    onnx: str = ""
    tflite: str = ""
    torch: str = ""


UNARY: Mapping[str, Names] = {
    "absolute": Names("Abs", "ABS", "abs"),
    "arccos": Names("Acos", "", "acos"),
    "arccosh": Names("Acosh", "", "acosh"),
    "arcsin": Names("Asin", "", "asin"),
    "arcsinh": Names("Asinh", "", "asinh"),
    "arctan": Names("Atan", "", "atan"),
    "arctanh": Names("Atanh", "", "atanh"),
    "ceil": Names("Ceil", "CEIL", "ceil"),
    "cos": Names("Cos", "COS", "cos"),
    "cosh": Names("Cosh", "", "cosh"),
    "erf": Names("Erf", "", "erf"),
    "exp": Names("Exp", "EXP", "exp"),
    "floor": Names("Floor", "FLOOR", "floor"),
    "log": Names("Log", "LOG", "log"),
    "logical_not": Names("", "LOGICAL_NOT", "logical_not"),
    "negative": Names("Neg", "NEG", "neg"),
    "reciprocal": Names("Reciprocal", "", "reciprocal"),
    "relu": Names("Relu", "", "relu"),
    "round_half_even": Names("Round", "ROUND", "round"),
    "rsqrt": Names("", "RSQRT", "rsqrt"),
    "sigmoid": Names("Sigmoid", "", "sigmoid"),
    "sign": Names("Sign", "SIGN", "sign"),
    "sin": Names("Sin", "SIN", "sin"),
    "sinh": Names("Sinh", "", "sinh"),
    "softplus": Names("Softplus", "", ""),
    "sqrt": Names("Sqrt", "SQRT", "sqrt"),
    "square": Names("", "SQUARE", "square"),
    "tan": Names("Tan", "", "tan"),
    "tanh": Names("Tanh", "", "tanh"),
}
BINARY: Mapping[str, Names] = {
    "add": Names("Add", "", "add"),
    "arctan2": Names("", "ATAN2", "atan2"),
    "bitwise_and": Names("BitwiseAnd", "", "and"),
    "bitwise_or": Names("BitwiseOr", "", "or"),
    "bitwise_xor": Names("BitwiseXor", "BITWISE_XOR", "xor"),
    "divide": Names("", "DIV", "div"),
    "equal": Names("Equal", "EQUAL", "eq"),
    "floor_divide": Names("", "FLOOR_DIV", "floor_divide"),
    "greater": Names("Greater", "GREATER", "gt"),
    "greater_equal": Names("GreaterOrEqual", "GREATER_EQUAL", "ge"),
    "left_shift": Names("", "", "lshift"),
    "less": Names("Less", "LESS", "lt"),
    "less_equal": Names("LessOrEqual", "LESS_EQUAL", "le"),
    "logical_and": Names("And", "LOGICAL_AND", "logical_and"),
    "logical_or": Names("Or", "LOGICAL_OR", "logical_or"),
    "logical_xor": Names("Xor", "", "logical_xor"),
    "maximum": Names("", "MAXIMUM", "max"),
    "minimum": Names("", "MINIMUM", "min"),
    "multiply": Names("Mul", "", "mul"),
    "not_equal": Names("", "NOT_EQUAL", "ne"),
    "power": Names("", "POW", "pow"),
    "remainder": Names("", "FLOOR_MOD", "remainder"),
    "right_shift": Names("", "", "rshift"),
    "subtract": Names("Sub", "SUB", "sub"),
}


def names_in(format: str, rows: Mapping[str, Names]) -> dict[str, str]:
    """Return a mapping from a format's names to explorer's operations."""
    return {name: operation for operation, names in rows.items() if (name := getattr(names, format))}
