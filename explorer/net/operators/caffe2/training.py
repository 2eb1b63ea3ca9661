"""Operator types that differ between training and inference: Dropout and SpatialBN."""

from __future__ import annotations

from typing import Annotated

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.net.operators.caffe2.table import net_operator
from explorer.ops.base import reshape
from explorer.ops.nn.normalization import batch_norm
from explorer.ops.nn.training_modes import apply_dropout, batch_norm_by_batch, dropout_mask
from explorer.record.reasons import counted_text


@net_operator(in_place=True, by_output=True, no_gradient=(1,), inputs=(1, 2), outputs=(1, 2))
def Dropout(
    x: Expr,
    step: Expr | None = None,
    *,
    ratio: Annotated[float, "fraction of the elements that are dropped"] = 0.5,
    is_test: Annotated[bool, "nothing is dropped"] = True,
    seed: int = 0,
    outputs: int,
    blob: str,
) -> tuple[Expr, ...]:
    """Return the operand unchanged; with is_test=False, random elements are set to zero.

    The remaining elements are divided by 1 − ratio, and the second output is their mask. ``step`` is the index of the
    training step from net.Iter, and each step drops different elements.
    """
    if is_test:
        if outputs == 2 or step is not None:
            raise OperandError(
                f"{'a mask' if outputs == 2 else 'a step index'} with is_test=True",
                rule="Dropout: with is_test=True there must be one input and one output",
                fix="is_test=False",
            )
        return (x,)
    if not 0 <= ratio < 1:
        raise OperandError(f"ratio={ratio}", rule="Dropout: ratio must be at least 0 and less than 1", fix="ratio=0.5")
    if step is None or step.size != 1 or outputs != 2:
        raise OperandError(
            f"{'no step index' if step is None else f'the step {step.type}'} and {counted_text(outputs, 'output')}",
            rule="Dropout: in training it must read the step index, and write its result and the mask",
            fix='net.Dropout(["x", "iter"], ["y", "y_mask"], is_test=False)',
        )
    mask = dropout_mask(reshape(step, ()), x.shape, ratio, seed, blob)
    return apply_dropout(x, mask, ratio), mask


@net_operator(in_place=((0, 0), (3, 1), (4, 2)), by_output=(3, 4), no_gradient=(3, 4), inputs=(5,), outputs=(1, 5))
def SpatialBN(
    x: Expr,
    scale: Expr,
    bias: Expr,
    mean: Expr,
    var: Expr,
    *,
    epsilon: float = 1e-5,
    momentum: Annotated[float, "weight of the old statistics in the new ones"] = 0.9,
    is_test: Annotated[bool, "use the stored statistics"] = True,
    outputs: int,
) -> tuple[Expr, ...]:
    """Return (x − mean) / √(var + ε) · scale + bias for each channel of (N, C, …).

    With is_test=False, the mean and the variance of the batch are used. The other outputs are the running mean and
    variance, updated with the batch's mean and unbiased variance, followed by the batch's mean and 1 / √(var + ε).
    """
    if is_test != (outputs == 1):
        raise OperandError(
            f"{counted_text(outputs, 'output')} with is_test={is_test}",
            rule="SpatialBN must have one output with is_test=True, and five in training",
            fix='net.SpatialBN([…], ["y", "mean", "var", "batch_mean", "batch_inv_std"], is_test=False)',
        )
    if is_test:
        return (batch_norm(x, mean, var, scale, bias, epsilon),)
    if not 0 <= momentum <= 1:
        raise OperandError(f"momentum={momentum}", rule="SpatialBN: momentum must be in [0, 1]", fix="momentum=0.9")
    result = batch_norm_by_batch(x, mean, var, scale, bias, epsilon, momentum, "SpatialBN")
    return result.value, result.new_mean, result.new_variance, result.mean, (result.variance + epsilon) ** -0.5
