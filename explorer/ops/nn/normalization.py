"""Normalization of batches (with stored statistics), layers, groups, instances and vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, as_operands
from explorer.core.ir.policy_operations import composition
from explorer.core.memory_budget import claim_steps
from explorer.core.policy import Items
from explorer.core.registry import public
from explorer.core.types.tensor_type import as_integer, normalize_axes
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import check_groups, reshape
from explorer.ops.elementwise.arithmetic import add, add_n, multiply
from explorer.ops.elementwise.trigonometric_and_logs import rsqrt
from explorer.ops.elementwise.unary import sqrt, square
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.slicing import part_of
from explorer.ops.nn.activation import clip
from explorer.ops.reduction.reduce import mean, sum
from explorer.ops.reduction.statistics import vector_norm
from explorer.record.reasons import counted_text

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize", "rms_norm"]


@public
@composition
@rounded_once
def normalize(x: Any, order: float = 2, axis: int = 1, epsilon: float = 1e-12, *, policies: Items = ()) -> Expr:
    """Divide ``x`` by its norm along ``axis``, or by ε if the norm is smaller.

    (ONNX: LpNormalization; PNNX: F.normalize.)

    >>> ex.evaluate(ex.normalize(np.array([[3.0, 4.0]])))
    array([[0.6, 0.8]])
    """
    (x,) = as_operands((x,))
    if order == 2:  # clamping the square at ε² keeps the gradient of the root finite at 0
        axes = normalize_axes(axis, x.ndim, "normalize")
        length = sqrt(clip(sum(square(x), axes, True), epsilon**2, None))
    else:
        length = clip(vector_norm(x, order, axis, keepdims=True), epsilon, None)
    y: Expr = x / length
    return y


def _last_axes(x: Expr, count: int) -> tuple[int, ...]:
    return tuple(range(x.ndim - as_integer(count, "axes: the number of last axes"), x.ndim))


@public
@composition
@rounded_once
def layer_norm(
    x: Any, scale: Any = None, shift: Any = None, *, axes: int = 1, epsilon: float = 1e-5, policies: Items = ()
) -> Expr:
    """Compute (x − mean) / √(variance + ε) · scale + shift, with statistics over the last ``axes`` axes.

    ``scale`` and ``shift`` have the shape of these axes. The variance is the mean of the squared deviations, without
    Bessel's correction. (ONNX: LayerNormalization; PNNX: nn.LayerNorm, F.layer_norm.)

    >>> ex.evaluate(ex.layer_norm(np.array([[1.0, 3.0]]), epsilon=0.0))
    array([[-1.,  1.]])
    """
    (x,) = as_operands((x,))
    last = _last_axes(x, axes)
    centred = x - mean(x, last, keepdims=True)
    # use two passes, because mean x² − (mean x)² loses precision if the mean is much larger than the deviation
    y: Expr = centred * rsqrt(mean(square(centred), last, keepdims=True) + epsilon)
    y = y if scale is None else y * scale
    return y if shift is None else y + shift


@public
@composition
@rounded_once
def rms_norm(x: Any, scale: Any = None, *, axes: int = 1, epsilon: float | None = None, policies: Items = ()) -> Expr:
    """Compute x / √(mean x² + ε) · scale, with the mean over the last ``axes`` axes.

    If ``epsilon`` is None, ε is the machine epsilon of the dtype.

    >>> ex.evaluate(ex.rms_norm(np.array([3.0, 4.0]))).round(3)
    array([0.849, 1.131])
    """
    (x,) = as_operands((x,))
    last = _last_axes(x, axes)
    # like PyTorch for eps=None; ONNX's RMSNormalization always specifies a number
    epsilon = float(np.finfo(x.dtype).eps) if epsilon is None else epsilon
    y: Expr = x * rsqrt(mean(square(x), last, keepdims=True) + epsilon)
    return y if scale is None else y * scale


@public
@composition
@rounded_once
def group_norm(
    x: Any, groups: int, scale: Any = None, shift: Any = None, *, epsilon: float = 1e-5, policies: Items = ()
) -> Expr:
    """Compute (x − mean) / √(variance + ε) · scale + shift for each group of channels.

    ``x`` is (N, C, …); ``scale`` and ``shift`` are (C,).

    >>> ex.evaluate(ex.group_norm(np.array([[[1.0], [3.0], [5.0], [9.0]]]), 2)).round(2).ravel()
    array([-1.,  1., -1.,  1.])
    """
    (x,) = as_operands((x,))
    count = check_groups("group_norm", x, groups)
    # a group's channels and pixels are adjacent, so merge them into one axis for layer_norm
    split = reshape(x, (x.shape[0], count, math.prod(x.shape[1:]) // count))
    y = reshape(layer_norm(split, epsilon=epsilon), x.shape)
    for value, combine in ((scale, multiply), (shift, add)):
        if value is not None:
            (value,) = as_operands((value,))
            y = combine(y, reshape(value, (value.size, *[1] * (x.ndim - 2))))
    return y


@public
@composition
@rounded_once
def instance_norm(x: Any, scale: Any = None, shift: Any = None, *, epsilon: float = 1e-5, policies: Items = ()) -> Expr:
    """Compute (x − mean) / √(variance + ε) · scale + shift for each channel of each image.

    ``x`` is (N, C, …); ``scale`` and ``shift`` are (C,).

    >>> ex.evaluate(ex.instance_norm(np.array([[[1.0, 3.0], [5.0, 9.0]]]))).round(2)
    array([[[-1.,  1.],
            [-1.,  1.]]])
    """
    (x,) = as_operands((x,))
    return group_norm(x, x.shape[1] if x.ndim > 1 else 1, scale, shift, epsilon=epsilon)


@public
@rounded_once
def local_response_norm(x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Expr:
    """Compute x / (bias + α · mean of x² over ``size`` adjacent channels)^β.

    ``x`` is (N, C, …). Channels before the first and after the last count as 0.

    >>> ex.evaluate(ex.local_response_norm(np.ones((1, 3, 1)), 3, alpha=3.0)).round(2).ravel()
    array([0.44, 0.35, 0.44])
    """
    (x,) = as_operands((x,))
    count = as_integer(size, "local_response_norm: size")
    if x.ndim < 2 or count < 1:
        raise OperandError(
            f"local_response_norm: {counted_text(count, 'channel')} of {x.type}",
            rule="size must be at least 1, and the operand (N, C, …)",
            fix="size=5 for two channels on either side",
        )
    claim_steps("local_response_norm", count)
    sides = ((0, 0), (count // 2, (count - 1) // 2), *[(0, 0)] * (x.ndim - 2))
    squares, channels = padded(square(x), sides), x.shape[1]
    total = add_n(*[part_of(squares, (slice(None), slice(i, i + channels))) for i in range(count)])
    y: Expr = x / (bias + total * (alpha / count)) ** beta
    return y


@public
def batch_norm(x: Any, mean: Any, variance: Any, scale: Any = None, shift: Any = None, epsilon: float = 1e-5) -> Expr:
    """Compute (x − mean) / √(variance + ε) · scale + shift for each channel, with the given statistics.

    ``x`` is (N, C, …). ``mean``, ``variance``, ``scale`` and ``shift`` have C elements each. (ONNX: BatchNormalization;
    PNNX: nn.BatchNorm1d, 2d and 3d, F.batch_norm.)

    >>> x, statistics = np.ones((1, 2, 1)), np.array([1.0, 0.0])
    >>> ex.evaluate(ex.batch_norm(x, statistics, np.ones(2), epsilon=0.0))
    array([[[0.],
            [1.]]])
    """
    operands = [x, mean, variance, *[v for v in (scale, shift) if v is not None]]
    x, mean, variance, *rest = as_operands(tuple(operands))
    y: Expr
    trailing_ones = (-1, *[1] * (x.ndim - 2))

    def channels(value: Expr) -> Expr:
        return reshape(value, (value.size, *trailing_ones[1:]))

    # Compute the factor separately, so that the plan can compute it in advance if the statistics are constants.
    factor = 1 / sqrt(variance + epsilon)
    if scale is not None:
        factor = factor * rest.pop(0)
    y = (x - channels(mean)) * channels(factor)
    return y if shift is None else y + channels(rest.pop(0))
