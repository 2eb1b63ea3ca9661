"""Names of explorer's operations in file formats and compilers.

Readers and writers use the tables of elementwise operations for simple operator types. A name is "" if the format lacks
the operation or uses the name for another one. PyTorch's names occur in PNNX expressions and in ``aten``. Comparisons
of two compilers use `same_operation`, for which names only need to mean nearly the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
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


_SIMILAR: Mapping[str, str] = {
    "absolute": "abs",
    "add": "add_ addn",
    "broadcast_to": "broadcast broadcast_in_dim expand",
    "cast": "astype convert _to_copy convert_element_type to type",
    "concatenate": "cat concat concatenation",
    "conv2d": "conv convolution conv_2d conv_general_dilated fusedconv depthwise_conv_2d",
    "cumsum": "cumulative_sum reduce_window",
    "divide": "div truediv true_divide",
    "equal": "eq",
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "greater": "gt",
    "greater_equal": "ge greaterorequal",
    "less": "lt",
    "less_equal": "le lessorequal",
    "log": "ln",
    "logical_not": "not",
    "matmul": "mm addmm bmm baddbmm linear dot dot_general gemm fusedgemm fusedmatmul fully_connected batch_matmul "
    "batchmatmul innerproduct transposematmul",
    "max": "amax reduce_max reducemax",
    "maximum": "relu",
    "mean": "reducemean reduce_mean",
    "min": "amin reduce_min reducemin",
    "multiply": "mul",
    "negative": "neg negate",
    "power": "pow",
    "reshape": "view _unsafe_view flatten unflatten bitcast",
    "sigmoid": "logistic",
    "slice": "strided_slice narrow",
    "softmax": "_softmax safe_softmax",
    "subtract": "sub",
    "sum": "reduce_sum reducesum",
    "transpose": "permute t numpy_t swapaxes permute_dims",
    "where": "select select_n select_v2",
}
"""explorer's operation → similar operations in compilers, separated by spaces; a compiler without a relu computes the
maximum of its operand and 0, and one without a cumulative sum reduces growing windows
"""


@cache
def _operation_of() -> dict[str, str]:
    rows = {**UNARY, **BINARY}
    known = {name.lower(): operation for operation, names in rows.items() for name in names if name}
    similar = {name: operation for operation, names in _SIMILAR.items() for name in names.split()}
    return known | {operation: operation for operation in (*rows, *_SIMILAR)} | similar


def same_operation(name: str) -> str:
    """Return explorer's name for an operation of a compiler or file format, or the name in lower case.

    >>> from explorer.names.operations import same_operation
    >>> [same_operation(name) for name in ("dot", "addmm", "MatMul", "aten.mul.Tensor", "exponential")]
    ['matmul', 'matmul', 'matmul', 'multiply', 'exp']
    """
    plain = name.removeprefix("aten.").partition(".")[0].replace("-", "_").lower()
    return _operation_of().get(plain, plain)
