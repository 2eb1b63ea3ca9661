"""Operator types that compute otherwise while a net is trained: Dropout, and SpatialBN by the batch's statistics."""

from __future__ import annotations

import hashlib
import math
from typing import Annotated

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.net.operators.caffe2.table import net_operator
from explorer.ops.base import cast, reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import square
from explorer.ops.nn.normalization import batch_norm
from explorer.ops.random import random_uniform_at
from explorer.record.reasons import counted_text


@net_operator(in_place=True, by_output=True, no_gradient=(1,), inputs=(1, 2), outputs=(1, 2))
def Dropout(
    x: Expr,
    step: Expr | None = None,
    *,
    ratio: Annotated[float, "share of the elements that are dropped"] = 0.5,
    is_test: Annotated[bool, "nothing is dropped"] = True,
    seed: int = 0,
    outputs: int,
    blob: str,
) -> tuple[Expr, ...]:
    """The operand itself, as it is where nothing is trained; with is_test=False, elements are dropped at random.

    What is kept is divided by 1 − ratio. The second output is the mask of the elements that are kept. ``step`` is the
    number of the training step, of net.Iter: every step drops others.
    """
    if is_test:
        if outputs == 2 or step is not None:
            raise OperandError(
                f"{'a mask' if outputs == 2 else 'the number of a step'} with is_test=True",
                rule="Dropout: where nothing is dropped, there must be one input and one output",
                fix="is_test=False",
            )
        return (x,)
    if not 0 <= ratio < 1:
        raise OperandError(f"ratio={ratio}", rule="Dropout: ratio must be at least 0 and less than 1", fix="ratio=0.5")
    if step is None or step.size != 1 or outputs != 2:
        raise OperandError(
            f"{'no number of the step' if step is None else f'the step {step.type}'} and "
            f"{counted_text(outputs, 'output')}",
            rule="Dropout: in training it must read the number of the step, and write its result and the mask",
            fix='net.Dropout(["x", "iter"], ["y", "y_mask"], is_test=False)',
        )
    stream = int.from_bytes(hashlib.blake2b(blob.encode(), digest_size=8).digest(), "little")
    mask = random_uniform_at(reshape(step, ()), x.shape, seed=seed, stream=stream) >= ratio
    return where(mask, x / (1 - ratio), 0), mask


@net_operator(in_place=((0, 0), (3, 1), (4, 2)), by_output=(3, 4), no_gradient=(3, 4), inputs=(5,), outputs=(1, 5))
def SpatialBN(
    x: Expr,
    scale: Expr,
    bias: Expr,
    mean: Expr,
    var: Expr,
    *,
    epsilon: float = 1e-5,
    momentum: Annotated[float, "share of the old statistics in the new ones"] = 0.9,
    is_test: Annotated[bool, "with the stored statistics"] = True,
    outputs: int,
) -> tuple[Expr, ...]:
    """(x − mean) / √(var + ε) · scale + bias for each channel of (N, C, …).

    With is_test=False the statistics are those of the batch. The further outputs are the stored mean and variance,
    moved towards the batch's (whose variance is divided by n − 1 for it), the batch's mean, and 1 / √(var + ε).
    """
    if is_test != (outputs == 1):
        raise OperandError(
            f"{counted_text(outputs, 'output')} with is_test={is_test}",
            rule="SpatialBN: it must have one output with is_test=True, and five in training",
            fix='net.SpatialBN([…], ["y", "mean", "var", "batch_mean", "batch_inv_std"], is_test=False)',
        )
    if is_test:
        return (batch_norm(x, mean, var, scale, bias, epsilon),)
    axes = (0, *range(2, x.ndim))
    count = math.prod([x.shape[axis] for axis in axes])
    if count < 2 or not 0 <= momentum <= 1:
        raise OperandError(
            f"{counted_text(count, 'element')} in a channel, momentum={momentum}",
            rule="SpatialBN: in training a channel must have two elements or more, and momentum must lie in 0 … 1",
            fix="a larger batch, momentum=0.9",
        )
    column = (-1, *[1] * (x.ndim - 2))
    batch_mean = x.mean(axes)
    batch_var = square(x - reshape(batch_mean, (x.shape[1], *column[1:]))).mean(axes)
    y = batch_norm(x, batch_mean, batch_var, scale, bias, epsilon)
    new_mean = mean * momentum + cast(batch_mean, mean.dtype) * (1 - momentum)
    new_var = var * momentum + cast(batch_var, var.dtype) * ((1 - momentum) * count / (count - 1))
    return y, new_mean, new_var, batch_mean, (batch_var + epsilon) ** -0.5
