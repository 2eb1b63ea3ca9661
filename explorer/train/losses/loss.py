"""Base classes of losses, which training minimizes. Losses have no state.

A loss is recorded like a layer, so the plan of a training step contains it, and `ex.grad` differentiates it. Called
with arrays, a loss computes its value immediately, for experiments and tests.
"""

from __future__ import annotations

import reprlib
from copy import copy
from typing import Any, ClassVar, NamedTuple

from explorer.core.argument_checks import check_name
from explorer.core.errors import DeclarationError, OperandError
from explorer.core.ir.expr import Expr, as_operands
from explorer.core.ir.tensor import Tensor
from explorer.core.types.custom_dtypes import is_floating
from explorer.core.types.tensor_type import Array, Shape
from explorer.gradients import grad
from explorer.ops.manipulation.one_hot import one_hot
from explorer.run import evaluate
from explorer.train.attribute_errors import refuse_setting

REDUCTIONS = ("mean", "sum", "none")


class ShardLoss(NamedTuple):
    """Contribution of the samples of one shard to the loss of their batch."""

    loss: Expr
    weight: Expr | None
    """weight of the shard; the batch loss is the sum of the shards' losses, divided by the sum of their weights. If it
    is None, the sum is not divided.
    """


class Loss:
    """Base class of losses, whose ``record`` returns a scalar for an output and a label of equal shape and any rank.

    For arrays, ``loss(output, label)`` is the loss, and ``loss.gradient(output, label)`` its gradient with respect to
    the output.
    """

    takes_classes: ClassVar[bool] = False
    """whether a label may contain class indices; such a label has no axis of classes"""

    reduction: str = "mean"
    """how the losses of samples are combined to the batch loss: "mean" or "sum"; "none" returns the losses of all
    samples
    """

    averages_samples: bool = True
    """whether the batch loss is exactly the mean or the sum of the samples' losses, which training on several workers
    requires
    """

    owner: str = ""
    """name of the module that owns the loss"""

    @property
    def type(self) -> str:
        """Name of the class, which identifies a stored module's loss."""
        return type(self).__name__

    def record(self, output: Expr, label: Expr) -> Expr:
        """Record the loss as a scalar."""
        raise DeclarationError(
            f"the loss class {self.type} without record",
            rule="a loss class must define record()",
            fix="def record(self, output, label): return ((output - label) ** 2).mean()",
        )

    def __call__(self, output: Any, label: Any) -> float | Array:
        """Compute the loss, or an array of losses with ``reduction="none"``; raise OperandError for unsuitable
        shapes."""
        output, label = self._operands(output, label)
        loss: Array = evaluate(self.checked(output, label))
        return loss if self.reduction == "none" else float(loss)

    def gradient(self, output: Any, label: Any) -> Array:
        """Compute the gradient with respect to the output; raise OperandError with ``reduction="none"``."""
        if self.reduction == "none":
            raise OperandError(
                f"gradient() of {self!r}",
                rule="only a single number has a gradient, but reduction='none' gives one number for each sample",
                fix="reduction='sum': its gradient contains the gradients of all samples' losses",
            )
        output, label = self._operands(output, label)
        gradient: Array = evaluate(grad(self.checked(output, label), output))
        return gradient

    def checked(self, output: Expr, label: Expr) -> Expr:
        """Record the loss after checking its operands' shapes; class indices are converted to one-hot rows."""
        if self.holds_classes(output, label):
            return self._reduced_once(self.record_classes(output, label))
        if label.shape != output.shape or not is_floating(output.dtype) or label.dtype.kind == "c":
            classes = ""
            if self.takes_classes:
                classes = "; or the label must contain integer class indices, and the output scores along its last axis"
            raise OperandError(
                f"{self.type} of an output {output.type} and a label {label.type}",
                rule=f"output and label must have the same shape; output must be floating, and label real{classes}",
                fix="reshape the label, or pass class indices as int64" if self.takes_classes else "reshape the label",
            )
        return self._reduced_once(self.record(output, label))

    def record_classes(self, output: Expr, label: Expr) -> Expr:
        """Record the loss for class indices, which must equal the loss for one-hot rows."""
        return self.record(output, one_hot(label, output.shape[-1], output.dtype))

    def shard(self, output: Expr, label: Expr, share: float) -> ShardLoss:
        """Record a shard's contribution to the batch loss; ``share`` is its fraction of the samples."""
        loss = self.checked(output, label)
        return ShardLoss(loss if self.reduction == "sum" else loss * share, None)

    def check_label(self, label: Array, output: Shape) -> None:
        """Raise OperandError if the loss is undefined for a label, given the output's shape."""

    def check_output(self, output: Array) -> None:
        """Raise OperandError if the loss is undefined for an output."""

    def settings(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, as numbers, strings and lists."""
        return {}

    def holds_classes(self, output: Expr, label: Expr) -> bool:
        """Return whether ``label`` contains class indices."""
        is_integer = label.dtype.kind in "iu" and is_floating(output.dtype)
        return self.takes_classes and is_integer and output.ndim > 0 and label.shape == output.shape[:-1]

    def _operands(self, output: Any, label: Any) -> tuple[Expr, Expr]:
        output, label = as_operands((output, label))
        if isinstance(label, Tensor):
            self.check_label(label.array, output.shape)
        if isinstance(output, Tensor):
            self.check_output(output.array)
        return output, label

    def _reduced_once(self, loss: Any) -> Expr:
        if not isinstance(loss, Expr) or (loss.shape and self.reduction != "none"):
            raise DeclarationError(
                f"record() of the loss {self.type} returned {getattr(loss, 'type', type(loss).__name__)}",
                rule="a loss must be a scalar expression",
                fix="return the mean: x.mean()",
            )
        return loss

    def __repr__(self) -> str:
        return f"{self.type}({', '.join([f'{name}={_value_text(value)}' for name, value in self.settings().items()])})"


class ReducedLoss(Loss):
    """Base class of losses with a ``reduction``; a subclass records sample losses, and ``reduced`` combines them."""

    def __init__(self, reduction: str = "mean") -> None:
        check_name(reduction, "reduction", REDUCTIONS)
        self.reduction = reduction

    def weights(self, output: Expr, label: Expr) -> Expr | None:
        """Record the samples' weights; a mean is divided by their sum. Return None for equal weights."""
        return None

    def reduced(self, losses: Expr, weights: Expr | None = None) -> Expr:
        """Record the batch loss from sample losses, which already include the weights."""
        if self.reduction == "none":
            return losses
        if self.reduction == "sum":
            return losses.sum()
        # Two means are divided, because sums of float16 values would overflow.
        return losses.mean() if weights is None else losses.mean() / weights.mean()

    def shard(self, output: Expr, label: Expr, share: float) -> ShardLoss:
        """Record a shard's contribution to the batch loss; ``share`` is its fraction of the samples."""
        weights = self.weights(output, label) if self.reduction == "mean" else None
        if weights is None:
            return super().shard(output, label, share)
        # Not the shard's mean, which is undefined if all its weights are 0.
        summed = copy(self)
        summed.owner, summed.reduction = "", "sum"
        return ShardLoss(summed.checked(output, label), weights.sum())

    def settings(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, as numbers, strings and lists."""
        return {} if self.reduction == "mean" else {"reduction": self.reduction}

    def __setattr__(self, name: str, value: Any) -> None:
        if self.owner and name != "owner":
            rule = f"a loss must not change once it belongs to a module, here {self.owner!r}: steps are planned with it"
            refuse_setting(self, name, value, rule, "make another module with another loss")
        super().__setattr__(name, value)


def _value_text(value: Any) -> str:
    return reprlib.repr(value) if isinstance(value, list) else repr(value)
