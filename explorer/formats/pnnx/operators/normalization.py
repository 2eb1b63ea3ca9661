"""Normalizations: modules with their weights, and functions that are given them."""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.custom_dtypes import accumulator_dtype
from explorer.formats.pnnx.operators.base.arguments import tensor_or_none
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.nn.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    normalize,
    rms_norm,
)
from explorer.ops.reduction.statistics import centre, var


def _epsilon(op: OperatorContext) -> float:
    return op.number("eps", 1e-5)


def _scale_and_shift(op: OperatorContext, name: str) -> tuple[Expr | None, Expr | None]:
    """Return a module's scale, and its shift where it has one; a flag of this name says whether there are any.

    Without the flag they are those that the file declares.
    """
    if op.argument(name, None) is None:
        return op.optional_weight("weight"), op.optional_weight("bias")
    return (op.weight("weight"), op.optional_weight("bias")) if op.flag(name) else (None, None)


@file_operator("nn.BatchNorm1d", "nn.BatchNorm2d", "nn.BatchNorm3d", ignored=("num_features", "momentum"))
def batch_normalization(op: OperatorContext) -> Expr:
    """Normalization with the stored statistics."""
    op.only("track_running_stats", True)
    scaled = op.flag("affine", True)
    return batch_norm(
        op.x,
        op.weight("running_mean"),
        op.weight("running_var"),
        op.weight("weight") if scaled else None,
        op.weight("bias") if scaled else None,
        _epsilon(op),
    )


@file_operator("F.batch_norm", ignored=("momentum", "cudnn_enabled"))
def batch_normalization_(op: OperatorContext) -> Expr:
    """Normalization with stored statistics, or with the operand's own where there are none."""
    op.only("training", False)
    x, average, variance = op.x, tensor_or_none(op, 1, "running_mean"), tensor_or_none(op, 2, "running_var")
    scale, shift = tensor_or_none(op, 3, "weight"), tensor_or_none(op, 4, "bias")
    # a module that tracks no statistics is written so: it normalizes by those of the operand, in training and after it
    axes = (0, *range(2, x.ndim))
    wide = x if average is not None and variance is not None else cast(x, accumulator_dtype(x.dtype))
    average = centre(wide, axes) if average is None else average
    variance = var(wide, axes) if variance is None else variance
    return cast(batch_norm(wide, average, variance, scale, shift, _epsilon(op)), x.dtype)


@file_operator("nn.LayerNorm")
def layer_normalization(op: OperatorContext) -> Expr:
    """Normalization over the last axes, those of ``normalized_shape``."""
    axes = len(op.integers("normalized_shape"))
    scale, shift = _scale_and_shift(op, "elementwise_affine")
    return layer_norm(op.x, scale, shift, axes=axes, epsilon=_epsilon(op))


@file_operator("F.layer_norm", ignored=("cudnn_enable",))
def layer_normalization_(op: OperatorContext) -> Expr:
    """Normalization over the last axes, those of ``normalized_shape``."""
    axes = len(op.integers("normalized_shape"))
    scale, shift = tensor_or_none(op, 1, "weight"), tensor_or_none(op, 2, "bias")
    return layer_norm(op.x, scale, shift, axes=axes, epsilon=_epsilon(op))


@file_operator("nn.RMSNorm", "F.rms_norm")
def rms_normalization(op: OperatorContext) -> Expr:
    """Division by the root of the mean square over the last axes; without ε it is the dtype's own."""
    axes = len(op.integers("normalized_shape"))
    module = op.definition.type.startswith("nn.")
    scale = _scale_and_shift(op, "elementwise_affine")[0] if module else tensor_or_none(op, 1, "weight")
    return rms_norm(op.x, scale, axes=axes, epsilon=None if op.argument("eps", None) is None else op.number("eps"))


@file_operator("nn.GroupNorm", ignored=("num_channels",))
def group_normalization(op: OperatorContext) -> Expr:
    """Normalization over groups of channels."""
    scale, shift = _scale_and_shift(op, "affine")
    return group_norm(op.x, op.integer("num_groups"), scale, shift, epsilon=_epsilon(op))


@file_operator("F.group_norm", ignored=("cudnn_enabled",))
def group_normalization_(op: OperatorContext) -> Expr:
    """Normalization over groups of channels."""
    scale, shift = tensor_or_none(op, 1, "weight"), tensor_or_none(op, 2, "bias")
    return group_norm(op.x, op.integer("num_groups"), scale, shift, epsilon=_epsilon(op))


@file_operator("nn.InstanceNorm1d", "nn.InstanceNorm2d", "nn.InstanceNorm3d", ignored=("num_features", "momentum"))
def instance_normalization(op: OperatorContext) -> Expr:
    """Normalization over each channel of each member, or with the stored statistics where they were tracked."""
    scale, shift = _scale_and_shift(op, "affine")
    if op.flag("track_running_stats", False):
        return batch_norm(op.x, op.weight("running_mean"), op.weight("running_var"), scale, shift, _epsilon(op))
    return instance_norm(_channels(op), scale, shift, epsilon=_epsilon(op))


@file_operator("F.instance_norm", ignored=("running_mean", "running_var", "momentum", "cudnn_enabled"))
def instance_normalization_(op: OperatorContext) -> Expr:
    """Normalization over each channel of each member."""
    op.only("use_input_stats", True)
    scale, shift = tensor_or_none(op, 3, "weight"), tensor_or_none(op, 4, "bias")
    return instance_norm(_channels(op), scale, shift, epsilon=_epsilon(op))


def _channels(op: OperatorContext) -> Expr:
    if op.x.ndim < 3:
        raise OperandError(
            f"an operand {op.x.type}",
            rule=f"{op.definition.type}: the operand must be (N, C, …) with at least one more axis",
        )
    return op.x


@file_operator("nn.LocalResponseNorm", "F.local_response_norm")
def local_response_normalization(op: OperatorContext) -> Expr:
    """Division by the size of neighbouring channels."""
    alpha, beta, k = (op.number(name, default) for name, default in (("alpha", 1e-4), ("beta", 0.75), ("k", 1.0)))
    return local_response_norm(op.x, op.integer("size"), alpha, beta, k)


@file_operator("F.normalize")
def normalize_(op: OperatorContext) -> Expr:
    """Division by the norm along an axis."""
    return normalize(op.x, op.number("p", 2.0), op.integer("dim", 1), op.number("eps", 1e-12))
