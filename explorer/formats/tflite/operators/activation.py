"""Activations: operators of their own, and those that the converter has merged into the operator before them.

A merged activation is recorded as an operation of its own, since plans fuse it again where that is faster, and a reader
sees what is computed.
"""

from __future__ import annotations

from collections.abc import Callable

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.registry import function
from explorer.formats.common.operator_checks import with_one_dtype
from explorer.formats.tflite.operators.integer_arithmetic import is_quantized
from explorer.formats.tflite.operators.quantized_functions import (
    leaky,
    log_probabilities,
    parametric,
    probabilities,
    probabilities_of_16_bits,
    rectified,
)
from explorer.formats.tflite.operators.quantized_tables import looked_up
from explorer.formats.tflite.operators.table import check_real, operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import required
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import relu, tanh
from explorer.ops.nn.activation import clip, gelu, leaky_relu, relu6
from explorer.ops.nn.softmax import log_softmax, softmax

_MERGED: dict[str, Callable[[Expr], Expr]] = {
    "NONE": lambda x: x,
    "RELU": relu,
    "RELU6": relu6,
    "RELU_N1_TO_1": lambda x: clip(x, -1, 1),
    "TANH": tanh,
}
"""``fused_activation_function`` → the function"""

_UNARY: dict[str, Callable[[Expr], Expr]] = {
    "RELU": relu,
    "RELU6": relu6,
    "RELU_N1_TO_1": lambda x: clip(x, -1, 1),
    "RELU_0_TO_1": lambda x: clip(x, 0, 1),
    "LOGISTIC": function("sigmoid"),
    "TANH": tanh,
    "ELU": function("elu"),
    "HARD_SWISH": function("hardswish"),
}


_RECTIFIERS = ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
"""types that whole numbers have, too"""


def activated(op: OperatorContext, y: Expr) -> Expr:
    """Return a result behind the activation that is merged into its operator, as an operation of its own."""
    word = op.argument("fused_activation_function", "NONE")
    if word not in _MERGED:
        raise OperandError(
            f"fused_activation_function={word!r}",
            rule=f"{op.definition.type}: the activation must be one of {', '.join(_MERGED)}",
        )
    return _MERGED[word](y)


def _real(op: OperatorContext, name: str = "input") -> Expr:
    """Return an operand that must be of real numbers."""
    x = required(op, name)
    if x.dtype.kind != "f":
        raise OperandError(f"{name} is {x.type}", rule=f"{op.definition.type}: {name} must be of real numbers")
    return x


def _enter(type: str, records: Callable[[Expr], Expr]) -> None:
    @operator(type, quantized=True)
    def unary(op: OperatorContext) -> Expr:
        if is_quantized(op, "input"):
            x = required(op, "input")
            return rectified(op, x) if type in _RECTIFIERS else looked_up(op, x, type)
        check_real(op)
        return records(_real(op))

    unary.__doc__ = f"{type}, element by element."


for _type, _records in _UNARY.items():
    _enter(_type, _records)


@operator("LEAKY_RELU", quantized=True)
def leaky_relu_(op: OperatorContext) -> Expr:
    """x if positive, else alpha · x."""
    if is_quantized(op, "input"):
        return leaky(op, required(op, "input"), op.number("alpha", 0.0))
    check_real(op)
    return leaky_relu(_real(op), op.number("alpha", 0.0))


@operator("GELU", quantized=True)
def gelu_(op: OperatorContext) -> Expr:
    """x · Φ(x), or its approximation by tanh."""
    by_tanh = op.flag("approximate", False)
    if is_quantized(op, "input"):
        return looked_up(op, required(op, "input"), "GELU by tanh" if by_tanh else "GELU")
    check_real(op)
    return gelu(_real(op), by_tanh)


@operator("PRELU", quantized=True)
def prelu_(op: OperatorContext) -> Expr:
    """x if positive, else alpha · x, where alpha is broadcast to x."""
    alpha = required(op, "alpha")
    if is_quantized(op, "input"):
        return parametric(op, required(op, "input"), alpha)
    check_real(op)
    x = _real(op)
    with_one_dtype(input=x, alpha=alpha)
    return where(x >= 0, x, x * alpha)


@operator("SOFTMAX", quantized=True)
def softmax_(op: OperatorContext) -> Expr:
    """Softmax of beta · x along the last axis."""
    if is_quantized(op, "input"):
        x = required(op, "input")
        softmax_of = probabilities_of_16_bits if x.dtype.name == "int16" else probabilities
        return softmax_of(op, x, op.number("beta", 1.0))
    check_real(op)
    x, beta = _real(op), op.number("beta", 1.0)
    return softmax(x if beta == 1 else x * beta, -1)


@operator("LOG_SOFTMAX", quantized=True)
def log_softmax_(op: OperatorContext) -> Expr:
    """Logarithm of softmax along the last axis."""
    if is_quantized(op, "input"):
        return log_probabilities(op, required(op, "input"))
    check_real(op)
    return log_softmax(_real(op), -1)
