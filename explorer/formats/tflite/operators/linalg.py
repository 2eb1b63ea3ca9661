"""Products of matrices."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.common.known_inputs import optional, required
from explorer.formats.common.operator_checks import with_one_dtype, with_rank, with_shape
from explorer.formats.tflite.operators.activation import activated
from explorer.formats.tflite.operators.elementwise import operands
from explorer.formats.tflite.operators.integer_arithmetic import (
    exact,
    factors_of,
    is_quantized,
    requantized,
    single,
    with_dtype,
)
from explorer.formats.tflite.operators.table import check_real, operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast, reshape
from explorer.ops.linalg.matmul import matmul
from explorer.ops.manipulation.reshape import transpose


@operator("FULLY_CONNECTED", quantized=True)
def fully_connected(op: OperatorContext) -> Expr:
    """Rows of the input times the weights (outputs, inputs), transposed, plus the bias."""
    op.only("weights_format", "DEFAULT")
    x, weights = required(op, "input"), with_rank(op, "weights", required(op, "weights"), "outputs", "inputs")
    count, length = weights.shape
    if not length or x.size % length:
        raise OperandError(
            f"input is {x.type}, weights {weights.type}",
            rule="FULLY_CONNECTED: the input must be in rows as long as those of the weights",
        )
    keep = op.flag("keep_num_dims", False)
    if keep and (x.ndim < 1 or x.shape[-1] != length):
        raise OperandError(
            f"input is {x.type}, weights {weights.type}",
            rule="FULLY_CONNECTED: with keep_num_dims the last axis must be as long as the rows of the weights",
        )
    if not keep and x.shape != (x.size // length, length):
        x = reshape(x, (x.size // length, length))
    bias = optional(op, "bias")
    if is_quantized(op, "input"):
        return _integer_product(op, x, weights, bias)
    check_real(op)
    with_one_dtype(op, input=x, weights=weights, **({} if bias is None else {"bias": bias}))
    if x.dtype.kind != "f":
        raise OperandError(f"input is {x.type}", rule="FULLY_CONNECTED: operands must be of real numbers")
    y = matmul(x, transpose(weights))
    return activated(op, y if bias is None else y + with_shape(op, "bias", bias, (count,)))


def _integer_product(op: OperatorContext, x: Expr, weights: Expr, bias: Expr | None) -> Expr:
    """Return the same of whole numbers of 8 bits."""
    count, zero = weights.shape[0], single(op, "input")[1]
    factors, own_zero = factors_of(op, x, "weights", weights, count, 0)
    total = matmul(exact(x, zero), transpose(exact(weights, own_zero)))
    if bias is not None:
        with_dtype(op, np.dtype(np.int32), bias=bias)
        total = total + cast(with_shape(op, "bias", bias, (count,)), total.dtype)
    return requantized(op, total, factors, x, once=True)


@operator("BATCH_MATMUL")
def batch_matmul(op: OperatorContext) -> Expr:
    """Products of matrices in the last two axes, each of which may be transposed."""
    x, y = operands(op)
    if min(x.ndim, y.ndim) < 2 or x.dtype.kind != "f":
        raise OperandError(f"x is {x.type}, y {y.type}", rule="BATCH_MATMUL: operands must be matrices of real numbers")
    return matmul(_turned(x, op.flag("adj_x", False)), _turned(y, op.flag("adj_y", False)))


def _turned(x: Expr, turn: bool) -> Expr:
    return transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)) if turn else x
