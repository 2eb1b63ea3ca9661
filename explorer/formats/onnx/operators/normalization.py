"""Normalizations with stored statistics or with statistics of the operand."""

from __future__ import annotations

from typing import Literal

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.custom_dtypes import accumulator_dtype
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.onnx.operators.base.stash_type import FLOAT, in_stash_dtype, stashed
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.signature import Outputs
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
from explorer.ops.reduction.statistics import deviation_mean, var, vector_norm


@operator("BatchNormalization")
def batch_normalization(
    X: Expr,
    scale: Expr,
    B: Expr,
    input_mean: Expr,
    input_var: Expr,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    outputs: Outputs,
) -> Expr | tuple[Expr, ...]:
    """Normalize channels with the stored statistics, or in training mode with batch statistics.

    In training mode, also return the running statistics; ``momentum`` is the weight of the old statistics.
    """
    if not training_mode:
        if outputs > 1:
            raise OperandError(f"{outputs} outputs", rule="BatchNormalization: statistics require training_mode=1")
        return batch_norm(X, input_mean, input_var, scale, B, epsilon)
    wide, axes = cast(X, accumulator_dtype(X.dtype)), (0, *range(2, X.ndim))
    statistics = deviation_mean(wide, axes), var(wide, axes)
    y = cast(batch_norm(wide, *statistics, scale, B, epsilon), X.dtype)
    running = [
        cast(stored * momentum + batch * (1 - momentum), stored.dtype)
        for stored, batch in zip((input_mean, input_var), statistics, strict=True)
    ]
    return (y, *running)[:outputs]


@operator("LayerNormalization")
def layer_normalization(
    X: Expr,
    Scale: Expr,
    B: Expr | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = FLOAT,
    outputs: Outputs,
) -> tuple[Expr, ...]:
    """Normalize over the axes from ``axis`` on; also return the mean and 1 / √(variance + ε) if they are used."""
    last = tuple(range(normalize_axis(axis, X.ndim, "LayerNormalization"), X.ndim))
    wide = in_stash_dtype(X, stash_type)
    y = cast(layer_norm(wide, Scale, B, axes=len(last), epsilon=epsilon), X.dtype)
    if outputs == 1:
        return (y,)
    statistics = mean(wide, last, keepdims=True), rsqrt(var(wide, last, keepdims=True) + epsilon)
    return (y, *[stashed(statistic, stash_type) for statistic in statistics])[:outputs]


@operator("RMSNormalization")
def rms_normalization(X: Expr, scale: Expr, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = FLOAT) -> Expr:
    """Return X / √(mean X² + ε) · scale, with the mean over the axes from ``axis`` on."""
    axes = X.ndim - normalize_axis(axis, X.ndim, "RMSNormalization")
    return cast(rms_norm(in_stash_dtype(X, stash_type), scale, axes=axes, epsilon=epsilon), X.dtype)


@operator("InstanceNormalization")
def instance_normalization(input: Expr, scale: Expr, B: Expr, *, epsilon: float = 1e-5) -> Expr:
    """Normalize each channel of each batch element."""
    return instance_norm(input, scale, B, epsilon=epsilon)


@operator("GroupNormalization")
def group_normalization(
    X: Expr, scale: Expr, bias: Expr, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = FLOAT
) -> Expr:
    """Normalize groups of channels.

    Scale and bias have one number per channel since opset 21, and one per group before.
    """
    # the two forms are distinguished by shape; with one channel per group, they are the same
    if scale.shape == (num_groups,) != (X.shape[1],) and X.shape[1] % num_groups == 0:
        scale, bias = (repeat(value, X.shape[1] // num_groups) for value in (scale, bias))
    return cast(group_norm(in_stash_dtype(X, stash_type), num_groups, scale, bias, epsilon=epsilon), X.dtype)


@operator("LRN")
def local_response_normalization(
    X: Expr, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Expr:
    """Divide X by a power of the mean square of neighbouring channels."""
    if size % 2 == 0:
        raise OperandError(f"size={size}", rule="LRN: size must be odd, for equal numbers of channels on both sides")
    return local_response_norm(X, size, alpha, beta, bias)


@operator("LpNormalization")
def lp_normalization(input: Expr, *, axis: int = -1, p: Literal[1, 2] = 2) -> Expr:
    """Divide the input by its L1 or L2 norm along an axis; return 0 if the norm is 0."""
    return _over_norm(input, p, normalize_axis(axis, input.ndim, "LpNormalization"))


@rounded_once
def _over_norm(x: Expr, order: int, axis: int) -> Expr:
    norm = vector_norm(x, order, axis, keepdims=True)
    return where(norm == 0, 0, x / where(norm == 0, 1, norm))
