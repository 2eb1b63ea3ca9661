"""Normalization, with stored statistics or those of the operand."""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.expr import Expr
from explorer.formats.onnx.operators.table import operator
from explorer.formats.onnx.operators.values import axis_of, first, given, optional
from explorer.net.context import OperatorContext
from explorer.ops.base import reshape
from explorer.ops.norm import batch_norm
from explorer.ops.statistics import layer_norm


@operator("BatchNormalization")
def batch_normalization(op: OperatorContext) -> Expr:
    """Normalization of channels with the stored statistics."""
    op.only("training_mode", 0)
    if len(op.definition.outputs) > 1:
        raise OperandError("statistics are outputs", rule="BatchNormalization is read from nets not in training")
    x, mean, variance, scale, shift = (given(op, name) for name in ("X", "input_mean", "input_var", "scale", "B"))
    return batch_norm(x, mean, variance, scale, shift, op.number("epsilon", 1e-5))


@operator("LayerNormalization")
def layer_normalization(op: OperatorContext) -> Expr:
    """Normalization over the axes from ``axis`` on."""
    if len(op.definition.outputs) > 1:
        raise OperandError("the outputs Mean and InvStdDev are used", rule="LayerNormalization gives Y alone")
    x = given(op, "X")
    axes = x.ndim - axis_of(op, x, -1)
    return layer_norm(x, given(op, "Scale"), optional(op, "B"), axes=axes, epsilon=op.number("epsilon", 1e-5))


@operator("InstanceNormalization")
def instance_normalization(op: OperatorContext) -> Expr:
    """Normalization of each channel of each member."""
    x = first(op)
    column = (x.shape[1], *[1] * (x.ndim - 2))
    y = layer_norm(x, axes=x.ndim - 2, epsilon=op.number("epsilon", 1e-5))
    return y * reshape(given(op, "scale"), column) + reshape(given(op, "B"), column)


@operator("GroupNormalization")
def group_normalization(op: OperatorContext) -> Expr:
    """Normalization of groups of channels; scale and bias are one a channel, before opset 21 one a group."""
    x, groups = first(op), op.integer("num_groups")
    n, c = x.shape[:2]
    if groups < 1 or c % groups:
        raise OperandError(f"num_groups={groups} for {x.type}", rule="groups have equally many channels")
    y = layer_norm(reshape(x, (n, groups, -(-x.size // (n * groups)))), epsilon=op.number("epsilon", 1e-5))
    scale, bias = given(op, "scale"), given(op, "bias")
    if scale.shape == (groups,) != (c,):
        return reshape(y * reshape(scale, (groups, 1)) + reshape(bias, (groups, 1)), x.shape)
    column = (c, *[1] * (x.ndim - 2))
    return reshape(y, x.shape) * reshape(scale, column) + reshape(bias, column)
