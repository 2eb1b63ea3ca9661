"""Writers of elementwise functions: ONNX's own functions, and compositions of them.

The reader and these writers share one table of names. explorer promotes dtypes like NumPy, while ONNX requires equal
dtypes and has few functions of booleans, so casts are written where necessary.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explorer.formats.onnx.writing.node_writer import GraphWriter, unsupported, writes
from explorer.formats.onnx.writing.written_model import code_of
from explorer.names.operations import BINARY, UNARY, names_in

_LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
_COMPARED = {"equal", "less", "less_equal", "greater", "greater_equal"}


def _declare_unary(type: str, operation: str) -> None:
    @writes(operation)
    def unary(graph: GraphWriter, node: Any, x: str) -> Any:
        if node.dtype.kind == "b":  # apply the function to booleans as 0 and 1
            return graph.cast(graph.node(type, graph.cast(x, np.bool_, np.uint8)), np.uint8, np.bool_)
        return graph.node(type, *graph.operands(node, [x]))


for _type, _operation in names_in("onnx", UNARY).items():
    _declare_unary(_type, _operation)


def _declare_binary(type: str, operation: str) -> None:
    @writes(operation)
    def binary(graph: GraphWriter, node: Any, *names: str) -> Any:
        dtype = np.result_type(*[operand.dtype for operand in node.operands])
        if operation in _COMPARED:
            if dtype.kind == "b" and type != "Equal":
                dtype = np.dtype(np.uint8)
            return graph.node(type, *graph.operands(node, names, dtype))
        if dtype.kind == "b" and operation in ("add", "multiply"):  # NumPy's sum of booleans is "or"
            return graph.node("Or" if operation == "add" else "And", *graph.operands(node, names, np.bool_))
        if node.dtype.kind == "b":
            return graph.node(type.removeprefix("Bitwise"), *graph.operands(node, names))
        return graph.node(type, *graph.operands(node, names))


for _type, _operation in names_in("onnx", BINARY).items():
    if _operation not in _LOGICAL:
        _declare_binary(_type, _operation)


@writes(*_LOGICAL)
def logical(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write a logical operation of two operands."""
    return graph.node(_LOGICAL[node.operation.name], *graph.operands(node, names, np.bool_))


@writes("logical_not")
def logical_not(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write the negation of a condition."""
    return graph.node("Not", *graph.operands(node, [x], np.bool_))


@writes("not_equal")
def not_equal(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write whether two elements differ."""
    dtype = np.result_type(*[operand.dtype for operand in node.operands])
    return graph.node("Not", graph.node("Equal", *graph.operands(node, names, dtype)))


@writes("divide")
def divide(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the quotient of real numbers."""
    return graph.node("Div", *graph.operands(node, names))


@writes("power")
def power(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the power of real numbers or integers."""
    return graph.node("Pow", *graph.operands(node, names))


@writes("maximum", "minimum")
def extreme(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the larger or smaller of two elements; NaN takes precedence."""
    type = "Max" if node.operation.name == "maximum" else "Min"
    if node.dtype.kind == "b":
        return graph.node("Or" if type == "Max" else "And", *graph.operands(node, names))
    # the standard does not define the result for NaN, and not all runtimes return NaN
    return graph.node(type, *graph.operands(node, names))


@writes("where")
def select(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write a choice between two elements depending on a condition."""
    condition, x, y = node.operands
    return graph.node(
        "Where",
        graph.cast(names[0], condition.dtype, np.bool_),
        graph.cast(names[1], x.dtype, node.dtype),
        graph.cast(names[2], y.dtype, node.dtype),
    )


@writes("add_n")
def add_n(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the sum of any number of operands."""
    terms = graph.operands(node, names)
    if node.dtype.kind == "f":
        return graph.node("Sum", *terms)
    total = terms[0]
    for term in terms[1:]:
        total = graph.node("Add", total, term)
    return graph.node("Identity", total) if len(terms) == 1 else total


@writes("interpolate")
def interpolate(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write a · weight + b · (1 − weight)."""
    a, b, weight = graph.operands(node, names)
    rest = graph.node("Sub", graph.constant(1, node.dtype), weight)
    return graph.node("Add", graph.node("Mul", a, weight), graph.node("Mul", b, rest))


@writes("sigmoid_gradient")
def sigmoid_gradient(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write g · y · (1 − y)."""
    g, y = graph.operands(node, names)
    rest = graph.node("Sub", graph.constant(1, node.dtype), y)
    return graph.node("Mul", graph.node("Mul", g, y), rest)


@writes("positive", "stop_gradient", "dynamic")
def identity(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write a copy of the operand."""
    return graph.node("Identity", *graph.operands(node, [x]))


@writes("square")
def square(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write x · x."""
    (x,) = graph.operands(node, [x])
    return graph.node("Mul", x, x)


@writes("expm1")
def expm1(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write eˣ − 1, which near 0 is 2t / (1 − t) with t = tanh(x / 2) to avoid cancellation."""
    (x,) = graph.operands(node, [x])
    one, half = graph.constant(1, node.dtype), graph.constant(0.5, node.dtype)
    t = graph.node("Tanh", graph.node("Mul", x, half))
    near = graph.node("Div", graph.node("Add", t, t), graph.node("Sub", one, t))
    far = graph.node("Sub", graph.node("Exp", x), one)
    return graph.node("Where", graph.node("Less", graph.node("Abs", x), half), near, far)


@writes("log1mexp")
def log1mexp(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write log(1 − eˣ) as log1p(−eˣ)."""
    (x,) = graph.operands(node, [x])
    return _log1p(graph, node, graph.node("Neg", graph.node("Exp", x)))


@writes("log1p")
def log1p(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write log(1 + x), which near 0 is 2 · artanh(x / (2 + x)) to avoid cancellation."""
    (x,) = graph.operands(node, [x])
    return _log1p(graph, node, x)


def _log1p(graph: GraphWriter, node: Any, x: str) -> Any:
    one, half, two = (graph.constant(value, node.dtype) for value in (1, 0.5, 2))
    near = graph.node("Mul", two, graph.node("Atanh", graph.node("Div", x, graph.node("Add", two, x))))
    far = graph.node("Log", graph.node("Add", one, x))
    return graph.node("Where", graph.node("Less", graph.node("Abs", x), half), near, far)


@writes("isnan", "isinf")
def is_special(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write whether an element is NaN or infinite."""
    dtype = node.operands[0].dtype
    wide = dtype if dtype.kind == "f" else np.dtype(np.float32)
    return graph.node("IsNaN" if node.operation.name == "isnan" else "IsInf", graph.cast(x, dtype, wide))


@writes("isfinite")
def is_finite(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write whether an element is neither NaN nor infinite."""
    dtype = node.operands[0].dtype
    x = graph.cast(x, dtype, dtype if dtype.kind == "f" else np.float32)
    return graph.node("Not", graph.node("Or", graph.node("IsNaN", x), graph.node("IsInf", x)))


@writes("trunc")
def trunc(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write the integer part, rounded towards zero."""
    (x,) = graph.operands(node, [x])
    if node.dtype.kind != "f":
        return graph.node("Identity", x)
    return graph.node("Mul", graph.node("Sign", x), graph.node("Floor", graph.node("Abs", x)))


@writes("fmod")
def fmod(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the remainder with the sign of the dividend."""
    return graph.node("Mod", *graph.operands(node, names), fmod=1)


@writes("remainder")
def remainder(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the remainder with the sign of the divisor."""
    x, y = graph.operands(node, names)
    return _remainder(graph, node, x, y)


def _remainder(graph: GraphWriter, node: Any, x: str, y: str) -> Any:
    if node.dtype.kind != "f":
        return graph.node("Mod", x, y)
    # for real numbers ONNX has only C's remainder; add the divisor if the signs differ
    zero = graph.constant(0, node.dtype)
    rest = graph.node("Mod", x, y, fmod=1)
    differs = graph.node("Xor", graph.node("Less", rest, zero), graph.node("Less", y, zero))
    wrong = graph.node("And", differs, graph.node("Not", graph.node("Equal", rest, zero)))
    return graph.node("Where", wrong, graph.node("Add", rest, y), rest)


@writes("floor_divide")
def floor_divide(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the quotient rounded down."""
    x, y = graph.operands(node, names)
    if node.dtype.kind == "u":
        return graph.node("Div", x, y)
    whole = graph.node("Div", graph.node("Sub", x, _remainder(graph, node, x, y)), y)
    return whole if node.dtype.kind == "i" else graph.node("Round", whole)


@writes("invert")
def invert(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write the inversion of all bits."""
    return graph.node("Not" if node.dtype.kind == "b" else "BitwiseNot", x)


@writes("left_shift", "right_shift")
def shift(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write a left or right shift of bits."""
    direction = "LEFT" if node.operation.name == "left_shift" else "RIGHT"
    return graph.node("BitShift", *graph.operands(node, names), direction=direction)


_SCALED = {"deg2rad": math.pi / 180, "rad2deg": 180 / math.pi}
_LOGARITHMS = {"log10": 1 / math.log(10), "log2": 1 / math.log(2)}


@writes(*_SCALED, *_LOGARITHMS)
def scaled(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write a multiple of x or of its logarithm."""
    (x,) = graph.operands(node, [x])
    name = node.operation.name
    value = graph.node("Log", x) if name in _LOGARITHMS else x
    return graph.node("Mul", value, graph.constant({**_SCALED, **_LOGARITHMS}[name], node.dtype))


@writes("exp2")
def exp2(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write 2ˣ."""
    return graph.node("Pow", graph.constant(2, node.dtype), *graph.operands(node, [x]))


@writes("cbrt")
def cbrt(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write the cube root, keeping the sign of x."""
    (x,) = graph.operands(node, [x])
    root = graph.node("Pow", graph.node("Abs", x), graph.constant(1 / 3, node.dtype))
    return graph.node("Mul", graph.node("Sign", x), root)


@writes("rsqrt")
def rsqrt(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write 1 / √x."""
    return graph.node("Reciprocal", graph.node("Sqrt", *graph.operands(node, [x])))


@writes("hypot")
def hypot(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write √(x² + y²) as the larger operand times a root, so that no square overflows."""
    x, y = (graph.node("Abs", name) for name in graph.operands(node, names))
    large, small = graph.node("Max", x, y), graph.node("Min", x, y)
    zero = graph.constant(0, node.dtype)
    quotient = graph.node("Where", graph.node("Equal", small, zero), zero, graph.node("Div", small, large))
    squares = graph.node("Add", graph.constant(1, node.dtype), graph.node("Mul", quotient, quotient))
    return graph.node("Mul", large, graph.node("Sqrt", squares))


@writes("logaddexp", "logaddexp2")
def logaddexp(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write log(eˣ + eʸ), or its equivalent to base 2, as the larger operand plus log1p(e^−distance)."""
    x, y = graph.operands(node, names)
    is_binary = node.operation.name == "logaddexp2"
    distance = graph.node("Neg", graph.node("Abs", graph.node("Sub", x, y)))
    if is_binary:
        distance = graph.node("Mul", distance, graph.constant(math.log(2), node.dtype))
    rest = _log1p(graph, node, graph.node("Exp", distance))
    if is_binary:
        rest = graph.node("Mul", rest, graph.constant(1 / math.log(2), node.dtype))
    return graph.node("Add", graph.node("Max", x, y), rest)


@writes("fmax", "fmin")
def extreme_number(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the larger or smaller of two elements; numbers take precedence over NaN."""
    x, y = graph.operands(node, names)
    type = "Max" if node.operation.name == "fmax" else "Min"
    if node.dtype.kind != "f":
        return graph.node(type, x, y)
    x, y = (graph.node("Where", graph.node("IsNaN", operand), other, operand) for operand, other in ((x, y), (y, x)))
    return graph.node(type, x, y)


@writes("arctan2")
def arctan2(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the angle of a point: arctan(y / x), ± π if x < 0; 0 for the origin, regardless of signs."""
    y, x = graph.operands(node, names)
    zero, half = graph.constant(0, node.dtype), graph.constant(math.pi, node.dtype)
    half_turn = graph.node("Where", graph.node("Less", y, zero), graph.node("Neg", half), half)
    correction = graph.node("Where", graph.node("Less", x, zero), half_turn, zero)
    # avoid 0 / 0, which is NaN
    divisor = graph.node("Where", graph.node("Equal", y, zero), graph.constant(1, node.dtype), x)
    return graph.node("Add", graph.node("Atan", graph.node("Div", y, divisor)), correction)


@writes("cast")
def cast(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write a conversion to another dtype."""
    return graph.node("Cast", x, to=code_of(node.dtype.name))


@writes("full", "zeros")
def constant(graph: GraphWriter, node: Any) -> Any:
    """Write a constant as one element expanded to its shape."""
    value = getattr(node.operation, "value", 0)
    element = graph.constant(value, node.dtype)
    if not node.shape:
        return element
    return graph.node("Expand", element, graph.shape(node, node.shape, graph.counterpart(node).shape))


unsupported("ONNX has no function that preserves the signs of zeros and NaN", "signbit", "copysign", "heaviside")
unsupported("ONNX operators do not support complex numbers", "conjugate", "real_part", "imaginary_part")
unsupported("ONNX has no function for neighbouring numbers", "nextafter")
unsupported("ONNX has no greatest common divisor and least common multiple", "gcd", "lcm")
unsupported("ONNX has no counter-based random numbers", "random_uniform_at")
