"""Negative log likelihood of probabilities, and its gradient.

The kernel computes the textbook formula, so the logarithm of a probability of 0 is −∞. If the probabilities come from a
softmax, rewrite rules replace both operations with a numerically stable form.

The truth is one weight per class, such as a one-hot row (``ex.one_hot`` converts class labels), so both operands have
gradients.
"""

from __future__ import annotations

import numpy as np

from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.operation_examples import Example, real
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import EXPENSIVE, broadcast_to, float_dtype, reshape
from explorer.ops.elementwise.unary import log

__all__ = ["nll_loss", "nll_loss_gradient"]


class NllLoss(Operation):
    """Negative log likelihood −Σ t·log p / Σ t of probabilities p for class weights t (MetaNN: NLLLoss).

    For p = 0, the loss is ∞ if t > 0, and NaN (0 · ∞) if t = 0. For the loss y and its upstream gradient g, the
    gradient for t is −g · (log p + y) / Σ t, and for p it is −g · t / (p · Σ t).
    """

    accumulates = True
    examples = (Example(real(2, 3, low=0.1), real(2, 3, low=0.1)),)

    def infer(self, truth: TensorType, prediction: TensorType) -> TensorType:
        if truth.shape != prediction.shape:
            raise self.refuse(
                (truth, prediction),
                "truth and prediction must have the same shape",
                "use ex.one_hot for integer class labels",
            )
        return TensorType((), float_dtype(np.result_type(truth.dtype, prediction.dtype)))

    def kernel(self, out: Array, truth: Array, prediction: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):  # log 0 = −∞, as in the formula
            out[...] = -np.sum(truth * np.log(prediction)) / np.sum(truth)
        return out

    def gradient(self, g: Expr, y: Expr, truth: Expr, prediction: Expr) -> tuple[Expr, Expr]:
        return _truth_gradient(g, y, truth, prediction), NllLossGradient()(g, truth, prediction)

    def batch(self, size: int, batched: tuple[bool, ...], truth: Expr, prediction: Expr) -> Expr:
        truth, prediction = (
            x if is_batched else broadcast_to(x, (size, *x.shape))
            for x, is_batched in zip((truth, prediction), batched, strict=True)
        )
        return _batch_losses(truth, prediction)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return (EXPENSIVE + 3) * types[1].size


class NllLossGradient(Operation):
    """Gradient of NllLoss for the probabilities p: −g·t / (p·Σ t) (MetaNN: NLLLossGrad)."""

    accumulates = True
    examples = (Example(real(), real(2, 3, low=0.1), real(2, 3, low=0.1)),)

    def infer(self, g: TensorType, truth: TensorType, prediction: TensorType) -> TensorType:
        if g.shape or truth.shape != prediction.shape:
            raise self.refuse(
                (g, truth, prediction), "g must be a scalar, and truth and prediction must have the same shape"
            )
        return TensorType(prediction.shape, float_dtype(np.result_type(g.dtype, truth.dtype, prediction.dtype)))

    def kernel(self, out: Array, g: Array, truth: Array, prediction: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):  # p = 0 gives −∞, as in the formula
            np.divide(truth, prediction, out=out)
            np.multiply(out, np.divide(g, -np.sum(truth, dtype=out.dtype)), out=out)
        return out

    def gradient(self, upstream: Expr, result: Expr, g: Expr, truth: Expr, prediction: Expr) -> tuple[Expr, Expr, Expr]:
        total = truth.sum()
        weighted = upstream * truth / prediction
        inner = weighted.sum()
        to_truth = -g / total * (upstream / prediction - inner / total)
        return -inner / total, to_truth, upstream * g * truth / (prediction * prediction * total)

    def batch(self, size: int, batched: tuple[bool, ...], g: Expr, truth: Expr, prediction: Expr) -> Expr:
        g, truth, prediction = (
            x if is_batched else broadcast_to(x, (size, *x.shape))
            for x, is_batched in zip((g, truth, prediction), batched, strict=True)
        )
        ones = (size, *[1] * (truth.ndim - 1))
        return _batch_gradients(reshape(g, ones), truth, prediction)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 4 * types[2].size


@rounded_once
def _batch_losses(truth: Expr, prediction: Expr) -> Expr:
    # each batch element has its own Σ t
    axes = tuple(range(1, truth.ndim))
    return -(truth * log(prediction)).sum(axis=axes) / truth.sum(axis=axes)


@rounded_once
def _truth_gradient(g: Expr, y: Expr, truth: Expr, prediction: Expr) -> Expr:
    return -g * (log(prediction) + y) / truth.sum()


@rounded_once
def _batch_gradients(g: Expr, truth: Expr, prediction: Expr) -> Expr:
    axes = tuple(range(1, truth.ndim))
    return -g * truth / (prediction * truth.sum(axis=axes, keepdims=True))


nll_loss, nll_loss_gradient = NllLoss(), NllLossGradient()
"""``nll_loss(truth, prediction)`` is a scalar; ``nll_loss_gradient(g, truth, prediction)`` has the shape of
``prediction``."""
