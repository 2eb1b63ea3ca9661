"""Operations that compute otherwise while something is trained: dropout, and normalization by a batch's statistics.

Operators of nets (explorer/net) and layers of modules (explorer/train) record the same ones.
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
from explorer.ops.reduction.statistics import centre
from explorer.record.reasons import counted_text


def kept_elements(step: Expr, shape: Shape, ratio: float, seed: int, name: str) -> Expr:
    """Record the mask of the elements that a dropout keeps: True for each with the probability 1 − ratio.

    It is a function of the seed, of a name and of the number of the step, a whole scalar, and of nothing else.
    """
    stream = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
    return random_uniform_at(step, shape, seed=seed, stream=stream) >= ratio


def dropped(x: Expr, mask: Expr, ratio: float) -> Expr:
    """Record the elements of a mask divided by 1 − ratio, so that their mean stays, and zeros for the others."""
    return where(mask, x / (1 - ratio), 0)


class BatchNormalized(NamedTuple):
    """Result of a normalization by the statistics of the batch, the new stored statistics, and the batch's."""

    value: Expr
    new_mean: Expr
    new_variance: Expr
    mean: Expr
    variance: Expr


def batch_norm_by_batch(
    x: Expr, mean: Expr, variance: Expr, scale: Expr, shift: Expr, epsilon: float, momentum: float, what: str
) -> BatchNormalized:
    """Record (x − mean) / √(variance + ε) · scale + shift by the statistics of each channel of (N, C, …).

    The stored mean and variance, of which the share ``momentum`` is kept, move towards the batch's, whose variance is
    divided by n − 1 for it. Raises OperandError, which names ``what``, for channels of one element.
    """
    axes = (0, *range(2, x.ndim))
    count = math.prod([x.shape[axis] for axis in axes])
    if count < 2:
        raise OperandError(
            f"{counted_text(count, 'element')} in a channel of {x.type}",
            rule=f"{what}: in training a channel must have two elements or more",
            fix="a larger batch; drop_last=True leaves out a last batch of one sample",
        )
    wide = cast(x, accumulator_dtype(x.dtype))
    batch_mean = centre(wide, axes)
    batch_variance = square(wide - reshape(batch_mean, (x.shape[1], *[1] * (x.ndim - 2)))).mean(axes)
    value = batch_norm(wide, batch_mean, batch_variance, scale, shift, epsilon)
    value = cast(value, np.result_type(x.dtype, scale.dtype, shift.dtype))
    new_mean = mean * momentum + cast(batch_mean, mean.dtype) * (1 - momentum)
    new_variance = variance * momentum + cast(batch_variance, variance.dtype) * ((1 - momentum) * count / (count - 1))
    return BatchNormalized(value, new_mean, new_variance, batch_mean, batch_variance)
