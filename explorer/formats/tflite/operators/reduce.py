"""Reductions along axes, places of extremes, sums so far, and norms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.tflite.operators.activation import activated
from explorer.formats.tflite.operators.integer_arithmetic import is_quantized
from explorer.formats.tflite.operators.quantized_functions import averaged, multiplied_up, summed
from explorer.formats.tflite.operators.quantized_norm import normalized_rows
from explorer.formats.tflite.operators.table import check_real, operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import integers, required, whole
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import maximum
from explorer.ops.elementwise.unary import sqrt, square
from explorer.ops.reduction.reduce import all, any, max, mean, min, prod, sum
from explorer.ops.reduction.sorting import argmax, argmin, cumsum, topk

_QUANTIZED = {"MEAN": averaged, "SUM": summed, "REDUCE_PROD": multiplied_up}
"""types that whole numbers with a scale have, too"""
_LEAST_NORM = 1e-6
"""least norm that L2_NORMALIZATION divides by"""


def axes_of(op: OperatorContext, x: Expr) -> tuple[int, ...]:
    """Return the axes that an operator names, counted from the front, each once."""
    return tuple(dict.fromkeys([normalize_axis(axis, x.ndim, op.definition.type) for axis in integers(op, "axis")]))


def _enter(type: str, reduce: Callable[..., Expr]) -> None:
    @operator(type, moves=type in ("REDUCE_MAX", "REDUCE_MIN"), quantized=type in _QUANTIZED)
    def reduction(op: OperatorContext) -> Expr:
        x = required(op, "input")
        if type in _QUANTIZED and is_quantized(op, "input"):
            return _QUANTIZED[type](op, x, axes_of(op, x), op.flag("keep_dims", False))
        if type in _QUANTIZED:
            check_real(op)
        if type == "MEAN" and x.dtype.kind != "f":
            raise OperandError(f"input is {x.type}", rule="MEAN: the input must be of real numbers")
        return cast(reduce(x, axes_of(op, x), keepdims=op.flag("keep_dims", False)), x.dtype)

    reduction.__doc__ = f"{reduce.__name__} along axes."


for _type, _reduce in {
    "MEAN": mean, "SUM": sum, "REDUCE_PROD": prod, "REDUCE_MAX": max, "REDUCE_MIN": min, "REDUCE_ANY": any,
    "REDUCE_ALL": all,
}.items():  # fmt: skip
    _enter(_type, _reduce)


# the place of the largest whole number is that of the largest real one
@operator("ARG_MAX", "ARG_MIN", quantized=True)
def place(op: OperatorContext) -> Expr:
    """The place of the first extreme along an axis."""
    x = required(op, "input")
    axis = normalize_axis(whole(op, "axis"), x.ndim, op.definition.type)
    places = (argmax if op.definition.type == "ARG_MAX" else argmin)(x, axis)
    return cast(places, np.dtype("int32" if op.argument("output_type", "int64") == "int32" else "int64"))


@operator("TOPK_V2", moves=True)
def largest(op: OperatorContext) -> tuple[Expr, Expr]:
    """The k largest elements of the last axis, and their places."""
    values, places = topk(required(op, "input"), whole(op, "k"))
    return values, cast(places, np.dtype(np.int32))


@operator("CUMSUM")
def sums(op: OperatorContext) -> Expr:
    """Sums of the elements so far along an axis."""
    x = required(op, "input")
    axis = normalize_axis(whole(op, "axis"), x.ndim, op.definition.type)
    return cumsum(x, axis, exclusive=op.flag("exclusive", False), reverse=op.flag("reverse", False))


@operator("L2_NORMALIZATION", quantized=True)
def normalized(op: OperatorContext) -> Expr:
    """x over its norm along the last axis."""
    x = required(op, "input")
    if is_quantized(op, "input"):
        return normalized_rows(op, x)
    check_real(op)
    return activated(op, _over_norm(x))


@rounded_once
def _over_norm(x: Expr) -> Expr:
    return x / maximum(sqrt(sum(square(x), -1, keepdims=True)), np.float32(_LEAST_NORM))
