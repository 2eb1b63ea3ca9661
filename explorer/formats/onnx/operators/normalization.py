"""Normalization, with stored statistics or those of the operand."""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.custom_dtypes import accumulator_dtype
from explorer.formats.onnx.operators.base.operator_inputs import axis_of, first
from explorer.formats.onnx.operators.base.stash_type import in_stash_dtype, stashed
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import optional, required
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.trigonometric_and_logs import rsqrt
from explorer.ops.manipulation.rearrange import repeat
from explorer.ops.nn.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    rms_norm,
)
from explorer.ops.reduction.reduce import mean
from explorer.ops.reduction.statistics import centre, var, vector_norm


@operator("BatchNormalization", ignored=("momentum",))
def batch_normalization(op: OperatorContext) -> Any:
    """Normalization of channels with the stored statistics, or in training with those of the batch."""
    if op.integer("training_mode", 0):
        return _by_batch(op)
    if len(op.definition.outputs) > 1:
        raise OperandError("statistics are outputs", rule="BatchNormalization must not be in training mode")
    x, mean, variance, scale, shift = (required(op, name) for name in ("X", "input_mean", "input_var", "scale", "B"))
    return batch_norm(x, mean, variance, scale, shift, op.number("epsilon", 1e-5))


def _by_batch(op: OperatorContext) -> tuple[Expr, ...]:
    """Normalize by the statistics of the batch; return the running ones, too, with the share ``momentum`` kept."""
    x, mean_, variance, scale, shift = (required(op, name) for name in ("X", "input_mean", "input_var", "scale", "B"))
    wide, axes, momentum = cast(x, accumulator_dtype(x.dtype)), (0, *range(2, x.ndim)), op.number("momentum", 0.9)
    own = centre(wide, axes), var(wide, axes)
    y = cast(batch_norm(wide, *own, scale, shift, op.number("epsilon", 1e-5)), x.dtype)
    running = [
        cast(stored * momentum + batch * (1 - momentum), stored.dtype)
        for stored, batch in zip((mean_, variance), own, strict=True)
    ]
    return (y, *running)[: len(op.definition.outputs)]


@operator("LayerNormalization")
def layer_normalization(op: OperatorContext) -> tuple[Expr, ...]:
    """Normalization over the axes from ``axis`` on; then the mean and 1 / √(variance + ε) where they are used."""
    x, epsilon = required(op, "X"), op.number("epsilon", 1e-5)
    axis = axis_of(op, x, -1)
    wide, last = in_stash_dtype(op, x), tuple(range(axis, x.ndim))
    y = cast(layer_norm(wide, required(op, "Scale"), optional(op, "B"), axes=len(last), epsilon=epsilon), x.dtype)
    if len(op.definition.outputs) == 1:
        return (y,)
    statistics = mean(wide, last, keepdims=True), rsqrt(var(wide, last, keepdims=True) + epsilon)
    return (y, *[stashed(op, statistic) for statistic in statistics])[: len(op.definition.outputs)]


@operator("RMSNormalization")
def rms_normalization(op: OperatorContext) -> Expr:
    """x / √(mean x² + ε) · scale over the axes from ``axis`` on."""
    x = required(op, "X")
    wide, axes = in_stash_dtype(op, x), x.ndim - axis_of(op, x, -1)
    return cast(rms_norm(wide, required(op, "scale"), axes=axes, epsilon=op.number("epsilon", 1e-5)), x.dtype)


@operator("InstanceNormalization")
def instance_normalization(op: OperatorContext) -> Expr:
    """Normalization of each channel of each member."""
    return instance_norm(first(op), required(op, "scale"), required(op, "B"), epsilon=op.number("epsilon", 1e-5))


@operator("GroupNormalization")
def group_normalization(op: OperatorContext) -> Expr:
    """Normalization of groups of channels; scale and bias are one a channel, before opset 21 one a group."""
    x, groups = first(op), op.integer("num_groups")
    scale, bias = required(op, "scale"), required(op, "bias")
    # told by shape: with as many groups as channels both meanings are one
    if scale.shape == (groups,) != (x.shape[1],) and x.shape[1] % groups == 0:
        scale, bias = (repeat(value, x.shape[1] // groups) for value in (scale, bias))
    y = group_norm(in_stash_dtype(op, x), groups, scale, bias, epsilon=op.number("epsilon", 1e-5))
    return cast(y, x.dtype)


@operator("LRN")
def local_response_normalization(op: OperatorContext) -> Expr:
    """x over a power of the mean square of neighbouring channels."""
    size = op.integer("size")
    if size % 2 == 0:
        raise OperandError(f"size={size}", rule="LRN: size must be odd, so that as many channels count on either side")
    alpha, beta, bias = op.number("alpha", 1e-4), op.number("beta", 0.75), op.number("bias", 1.0)
    return local_response_norm(first(op), size, alpha, beta, bias)


@operator("LpNormalization")
def norm_normalization(op: OperatorContext) -> Expr:
    """x over the sum of its absolute values, or over its length, along an axis; 0 where that is 0."""
    x, order = first(op), op.integer("p", 2)
    if order not in (1, 2):
        raise OperandError(f"p={order}", rule="LpNormalization: p must be 1 or 2")
    return _over_norm(x, order, axis_of(op, x, -1))


@rounded_once
def _over_norm(x: Expr, order: int, axis: int) -> Expr:
    length = vector_norm(x, order, axis, keepdims=True)
    return where(length == 0, 0, x / where(length == 0, 1, length))
