"""Products of matrices."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.common.operator_checks import with_one_dtype, with_rank, with_shape
from explorer.formats.tflite.operators.activation import activated
from explorer.formats.tflite.operators.elementwise import operands
from explorer.formats.tflite.operators.integer_arithmetic import (
    exact,
    factors_of,
    is_quantized,
    of_bytes,
    requantized,
    rounded_once,
    rounded_twice,
    rounding_of,
    single,
    with_bias,
)
from explorer.formats.tflite.operators.table import check_real, operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import optional, required
from explorer.ops.base import reshape
from explorer.ops.linalg.matmul import matmul
from explorer.ops.manipulation.reshape import transpose


# floating operands of quantised weights are not computed, which is where the first one counts
@operator("FULLY_CONNECTED", quantized=True, ignored=("asymmetric_quantize_inputs", "quantized_bias_type"))
def fully_connected(op: OperatorContext) -> Expr:
    """Rows of the input times the weights (outputs, inputs), transposed, plus the bias."""
    op.only("weights_format", "DEFAULT")
    x, weights = required(op, "input"), with_rank("weights", required(op, "weights"), "outputs", "inputs")
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
    with_one_dtype(input=x, weights=weights, **({} if bias is None else {"bias": bias}))
    if x.dtype.kind != "f":
        raise OperandError(f"input is {x.type}", rule="FULLY_CONNECTED: operands must be of real numbers")
    y = matmul(x, transpose(weights))
    return activated(op, y if bias is None else y + with_shape("bias", bias, (count,)))


def _integer_product(op: OperatorContext, x: Expr, weights: Expr, bias: Expr | None) -> Expr:
    """Return the same of quantised numbers."""
    count, zero = weights.shape[0], single(op, "input")[1]
    factors, own_zero = factors_of(op, x, "weights", weights, count, 0)
    total = matmul(exact(x, zero), transpose(exact(weights, own_zero)))
    return requantized(op, with_bias(op, total, bias, "weights", count, x), factors, x, rounding=rounded_once)


@operator("BATCH_MATMUL", quantized=True, ignored=("asymmetric_quantize_inputs",))
def batch_matmul(op: OperatorContext) -> Expr:
    """Products of matrices in the last two axes, each of which may be transposed."""
    x, y = operands(op)
    whole = is_quantized(op, "x") and is_quantized(op, "y")
    if min(x.ndim, y.ndim) < 2 or (x.dtype.kind != "f" and not whole):
        raise OperandError(f"x is {x.type}, y {y.type}", rule="BATCH_MATMUL: operands must be matrices of real numbers")
    turns = op.flag("adj_x", False), op.flag("adj_y", False)
    if not whole:
        check_real(op)
        return matmul(_turned(x, turns[0]), _turned(y, turns[1]))
    of_bytes(op, wide=True, signed=True, x=x, y=y)
    (scale, zero), (other_scale, other_zero) = single(op, "x"), single(op, "y")
    factor = np.array(np.float64(scale) * np.float64(other_scale) / np.float64(single(op, "output")[0]))
    total = matmul(_turned(exact(x, zero), turns[0]), _turned(exact(y, other_zero), turns[1]))
    return requantized(op, total, factor, x, rounding=rounding_of(x, rounded_twice))


def _turned(x: Expr, turn: bool) -> Expr:
    return transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)) if turn else x
