"""Matrix products."""

from __future__ import annotations

from typing import Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.common.operator_checks import with_one_dtype, with_rank, with_shape
from explorer.formats.tflite.operators.activation import apply_activation, check_float
from explorer.formats.tflite.operators.integer_arithmetic import (
    Activation,
    check_dtypes,
    is_quantized,
    quantized_product,
    requantize,
    rounded_once,
    rounding_of,
    scale_and_zero_point,
    without_zero_point,
)
from explorer.formats.tflite.operators.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.signature import Unused
from explorer.ops.base import reshape
from explorer.ops.linalg.matmul import matmul
from explorer.ops.manipulation.reshape import transpose


# asymmetric_quantize_inputs affects only float inputs with quantised weights, which are not supported.
@operator("FULLY_CONNECTED", quantized=True)
def fully_connected(
    op: OperatorContext,
    input: Expr,
    weights: Expr,
    bias: Expr | None = None,
    *,
    fused_activation_function: Activation = "NONE",
    weights_format: Literal["DEFAULT"] = "DEFAULT",
    keep_num_dims: bool = False,
    asymmetric_quantize_inputs: Unused,
    quantized_bias_type: Unused,
) -> Expr:
    """Return the rows of ``input`` times the transposed ``weights`` (outputs, inputs), plus ``bias``."""
    x, (count, length) = input, with_rank("weights", weights, "outputs", "inputs").shape
    if not length or x.size % length:
        raise OperandError(
            f"input is {x.type}, weights {weights.type}",
            rule="the rows of input and weights must have the same length",
        )
    if keep_num_dims and (x.ndim < 1 or x.shape[-1] != length):
        raise OperandError(
            f"input is {x.type}, weights {weights.type}",
            rule="with keep_num_dims the last axis must be as long as the rows of the weights",
        )
    if not keep_num_dims and x.shape != (x.size // length, length):
        x = reshape(x, (x.size // length, length))
    if is_quantized(op, "input"):
        return quantized_product(
            op,
            x,
            "weights",
            weights,
            bias,
            product=lambda x, weights: matmul(x, transpose(weights)),
            activation=fused_activation_function,
            rounding=rounded_once,
        )
    with_one_dtype(input=x, weights=weights, **({} if bias is None else {"bias": bias}))
    y = matmul(check_float("input", x), transpose(weights))
    return apply_activation(y if bias is None else y + with_shape("bias", bias, (count,)), fused_activation_function)


@operator("BATCH_MATMUL", quantized=True)
def batch_matmul(
    op: OperatorContext,
    x: Expr,
    y: Expr,
    *,
    adj_x: bool = False,
    adj_y: bool = False,
    asymmetric_quantize_inputs: Unused,
) -> Expr:
    """Return the matrix products over the last two axes; ``adj_x`` and ``adj_y`` transpose the operands' matrices."""
    with_one_dtype(x=x, y=y)
    quantized = is_quantized(op, "x", "y")
    if min(x.ndim, y.ndim) < 2 or (x.dtype.kind != "f" and not quantized):
        raise OperandError(f"x is {x.type}, y {y.type}", rule="operands must be matrices with a floating-point dtype")
    if not quantized:
        return matmul(_transposed(x, adj_x), _transposed(y, adj_y))
    check_dtypes(op, wide=True, signed=True, x=x, y=y)
    (scale, zero), (other_scale, other_zero) = scale_and_zero_point(op, "x"), scale_and_zero_point(op, "y")
    factor = np.array(np.float64(scale) * np.float64(other_scale) / np.float64(scale_and_zero_point(op, "output")[0]))
    total = matmul(
        _transposed(without_zero_point(x, zero), adj_x), _transposed(without_zero_point(y, other_zero), adj_y)
    )
    return requantize(op, total, factor, x, rounding=rounding_of(x))


def _transposed(x: Expr, adjoint: bool) -> Expr:
    return transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)) if adjoint else x
