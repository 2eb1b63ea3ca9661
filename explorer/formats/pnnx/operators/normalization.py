"""Normalizations: modules with weights, and functions with operands."""

from __future__ import annotations

from typing import Annotated, Literal

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.custom_dtypes import accumulator_dtype
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.signature import Ints, Names, Unused
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
from explorer.ops.reduction.statistics import deviation_mean, var

Statistics = Annotated[Unused, Names("num_features", "num_channels", "momentum", "cudnn_enabled", "cudnn_enable")]
"""sizes that the weights determine, and arguments that affect only training or torch's choice of kernels"""


def _affine(
    flag: bool | None, weight: Expr | None, bias: Expr | None, shifted: bool = False
) -> tuple[Expr | None, Expr | None]:
    """Return a module's scale and shift; raise OperandError if their presence contradicts ``flag``.

    If ``flag`` is True, the scale must be present, and so must the shift if ``shifted`` is True. If ``flag`` is False,
    both must be absent. If ``flag`` is None, nothing is checked.
    """
    missing = "weight" if weight is None else "bias" if bias is None and shifted else None
    if flag and missing:
        raise OperandError(f"the weight {missing!r} is missing", rule="a module with affine=True must have its weights")
    if flag is False and (weight is not None or bias is not None):
        raise OperandError(
            f"the weight {'bias' if weight is None else 'weight'!r}",
            rule="a module with affine=False must have no weights",
        )
    return weight, bias


@file_operator("nn.BatchNorm1d", "nn.BatchNorm2d", "nn.BatchNorm3d")
def batch_norm_module(
    input: Expr,
    running_mean: Expr,
    running_var: Expr,
    weight: Expr | None = None,
    bias: Expr | None = None,
    *,
    eps: float = 1e-5,
    affine: bool = True,
    track_running_stats: Literal[True] = True,
    statistics: Statistics,
) -> Expr:
    """Normalize with the stored mean and variance."""
    return batch_norm(input, running_mean, running_var, *_affine(affine, weight, bias, True), eps)


@file_operator("F.batch_norm")
def batch_norm_(
    input: Expr,
    running_mean: Expr | None = None,
    running_var: Expr | None = None,
    weight: Expr | None = None,
    bias: Expr | None = None,
    *,
    training: Literal[False] = False,
    eps: float = 1e-5,
    statistics: Statistics,
) -> Expr:
    """Normalize with the stored mean and variance, or with the input's if none are stored."""
    # pnnx writes a module with track_running_stats=False, which uses the input's statistics, as a call of this function
    axes = (0, *range(2, input.ndim))
    is_stored = running_mean is not None and running_var is not None
    wide = input if is_stored else cast(input, accumulator_dtype(input.dtype))
    average = deviation_mean(wide, axes) if running_mean is None else running_mean
    variance = var(wide, axes) if running_var is None else running_var
    return cast(batch_norm(wide, average, variance, weight, bias, eps), input.dtype)


@file_operator("nn.LayerNorm", "F.layer_norm")
def layer_norm_(
    input: Expr,
    weight: Expr | None = None,
    bias: Expr | None = None,
    *,
    normalized_shape: Ints,
    eps: float = 1e-5,
    elementwise_affine: bool | None = None,
    statistics: Statistics,
) -> Expr:
    """Normalize over the last axes, whose lengths are ``normalized_shape``."""
    scale, shift = _affine(elementwise_affine, weight, bias)
    return layer_norm(input, scale, shift, axes=len(normalized_shape), epsilon=eps)


@file_operator("nn.RMSNorm", "F.rms_norm")
def rms_norm_(
    input: Expr,
    weight: Expr | None = None,
    *,
    normalized_shape: Ints,
    eps: float | None = None,
    elementwise_affine: bool | None = None,
) -> Expr:
    """Divide by the root mean square over the last axes; the default of ``eps`` is the dtype's machine epsilon."""
    scale, _ = _affine(elementwise_affine, weight, None)
    return rms_norm(input, scale, axes=len(normalized_shape), epsilon=eps)


@file_operator("nn.GroupNorm", "F.group_norm")
def group_norm_(
    input: Expr,
    weight: Expr | None = None,
    bias: Expr | None = None,
    *,
    num_groups: int,
    eps: float = 1e-5,
    affine: bool | None = None,
    statistics: Statistics,
) -> Expr:
    """Normalize over groups of channels."""
    return group_norm(input, num_groups, *_affine(affine, weight, bias), epsilon=eps)


@file_operator("nn.InstanceNorm1d", "nn.InstanceNorm2d", "nn.InstanceNorm3d")
def instance_norm_module(
    input: Expr,
    running_mean: Expr | None = None,
    running_var: Expr | None = None,
    weight: Expr | None = None,
    bias: Expr | None = None,
    *,
    eps: float = 1e-5,
    affine: bool | None = None,
    track_running_stats: bool = False,
    statistics: Statistics,
) -> Expr:
    """Normalize each channel of each sample, with the stored statistics if ``track_running_stats`` is True."""
    scale, shift = _affine(affine, weight, bias)
    if not track_running_stats:
        return instance_norm(_with_channels(input), scale, shift, epsilon=eps)
    if running_mean is None or running_var is None:
        raise OperandError(
            "a statistic is missing",
            rule="a module with track_running_stats=True must have running_mean and running_var",
        )
    return batch_norm(input, running_mean, running_var, scale, shift, eps)


@file_operator("F.instance_norm")
def instance_norm_(
    input: Expr,
    running_mean: Unused,
    running_var: Unused,
    weight: Expr | None = None,
    bias: Expr | None = None,
    *,
    use_input_stats: Literal[True] = True,
    eps: float = 1e-5,
    statistics: Statistics,
) -> Expr:
    """Normalize each channel of each sample with the statistics of the input; stored statistics are ignored."""
    return instance_norm(_with_channels(input), weight, bias, epsilon=eps)


def _with_channels(x: Expr) -> Expr:
    if x.ndim < 3:
        raise OperandError(f"an operand {x.type}", rule="the operand must be (N, C, …) with at least one more axis")
    return x


@file_operator("nn.LocalResponseNorm", "F.local_response_norm")
def local_response_norm_(input: Expr, *, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Expr:
    """Normalize by the mean square of neighbouring channels."""
    return local_response_norm(input, size, alpha, beta, k)


@file_operator("F.normalize")
def normalize_(input: Expr, *, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Expr:
    """Divide by the p-norm along the axis ``dim``; norms below ``eps`` are replaced with ``eps``."""
    return normalize(input, p, dim, eps)
