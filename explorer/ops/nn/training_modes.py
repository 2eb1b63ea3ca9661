"""Operations that behave differently during training: dropout, and normalization with batch statistics.

Nets (explorer/net) and modules (explorer/train) both record them.
"""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.custom_dtypes import accumulator_dtype
from explorer.core.types.tensor_type import Shape
from explorer.ops.base import cast, reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import square
from explorer.ops.nn.normalization import batch_norm
from explorer.ops.random import random_uniform_at
from explorer.ops.reduction.statistics import deviation_mean
from explorer.record.reasons import counted_text


def dropout_mask(step: Expr, shape: Shape, ratio: float, seed: int, name: str) -> Expr:
    """Record a dropout mask of ``shape`` whose elements are True with probability 1 − ratio.

    The mask depends only on ``seed``, ``name`` and ``step``, an integer scalar.
    """
    stream = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
    return random_uniform_at(step, shape, seed=seed, stream=stream) >= ratio


def apply_dropout(x: Expr, mask: Expr, ratio: float) -> Expr:
    """Record x / (1 − ratio) where ``mask`` is True, and 0 elsewhere, which preserves the expected value of ``x``."""
    return where(mask, x / (1 - ratio), 0)


class BatchNormalized(NamedTuple):
    """The normalized value, the updated stored statistics, and the statistics of the batch."""

    value: Expr
    new_mean: Expr
    new_variance: Expr
    mean: Expr
    variance: Expr


def batch_norm_by_batch(
    x: Expr, mean: Expr, variance: Expr, scale: Expr, shift: Expr, epsilon: float, momentum: float, what: str
) -> BatchNormalized:
    """Record (x − mean) / √(variance + ε) · scale + shift, with the batch's mean and variance of each channel.

    ``x`` is (N, C, …). ``mean`` and ``variance`` are the stored statistics, which become momentum · stored + (1 −
    momentum) · batch; this update uses the unbiased batch variance (divided by n − 1). Raises OperandError if a channel
    has fewer than two elements; ``what`` is part of the message.
    """
    axes = (0, *range(2, x.ndim))
    count = math.prod([x.shape[axis] for axis in axes])
    if count < 2:
        raise OperandError(
            f"{counted_text(count, 'element')} in a channel of {x.type}",
            rule=f"{what}: in training, each channel must have at least two elements",
            fix="use a larger batch; drop_last=True omits a last batch of one sample",
        )
    wide = cast(x, accumulator_dtype(x.dtype))
    batch_mean = deviation_mean(wide, axes)
    batch_variance = square(wide - reshape(batch_mean, (x.shape[1], *[1] * (x.ndim - 2)))).mean(axes)
    value = batch_norm(wide, batch_mean, batch_variance, scale, shift, epsilon)
    value = cast(value, np.result_type(x.dtype, scale.dtype, shift.dtype))
    new_mean = mean * momentum + cast(batch_mean, mean.dtype) * (1 - momentum)
    new_variance = variance * momentum + cast(batch_variance, variance.dtype) * ((1 - momentum) * count / (count - 1))
    return BatchNormalized(value, new_mean, new_variance, batch_mean, batch_variance)
