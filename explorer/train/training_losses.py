"""Losses: the number that training makes smaller, and its gradient. They hold no state and own nothing.

A loss is recorded like a layer, so that a training step has it in its plan, and `ex.grad` differentiates it. Called
with arrays it computes at once, which is how it is tried out and tested.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from explorer.core.argument_checks import check_whole
from explorer.core.checked_functions import named_methods
from explorer.core.errors import DeclarationError, OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import as_operands
from explorer.core.types.custom_dtypes import is_floating
from explorer.core.types.tensor_type import Array
from explorer.grad import grad
from explorer.ops.elementwise.arithmetic import maximum, not_equal, where
from explorer.ops.elementwise.unary import log
from explorer.ops.manipulation.one_hot import one_hot
from explorer.ops.nn.losses import nll_loss
from explorer.ops.nn.softmax import log_softmax
from explorer.run import evaluate


class Loss:
    """Base of losses: ``record`` returns a scalar of an output and a label of one shape, of any rank.

    ``loss(output, label)`` is its value, ``loss.gradient(output, label)`` the gradient for the output, as arrays.
    """

    takes_classes: ClassVar[bool] = False
    """whether a label may hold class numbers in place of an axis of classes"""

    averages_samples: bool = True
    """whether the loss of a batch is the mean of its samples' losses, as training on several workers needs it"""

    owner: str = ""
    """name of the module that it belongs to"""

    @property
    def type(self) -> str:
        """Name of its class, by which a stored module is recognised."""
        return type(self).__name__

    def record(self, output: Expr, label: Expr) -> Expr:
        """Record the loss, a scalar."""
        raise DeclarationError(
            f"the loss class {self.type} without record",
            rule="a loss class must define record()",
            fix="def record(self, output, label): return ((output - label) ** 2).mean()",
        )

    def __call__(self, output: Any, label: Any) -> float:
        """Compute the loss; raises OperandError unless output and label have one shape."""
        return float(evaluate(self.checked(*as_operands((output, label)))))

    def gradient(self, output: Any, label: Any) -> Array:
        """Compute the gradient for the output, of its shape."""
        output, label = as_operands((output, label))
        gradient: Array = evaluate(grad(self.checked(output, label), output))
        return gradient

    def checked(self, output: Expr, label: Expr) -> Expr:
        """Record the loss of operands whose shapes fit; class numbers become rows."""
        if self._holds_classes(output, label):
            return self._scalar(self.record_classes(output, label))
        if label.shape != output.shape or not is_floating(output.dtype) or label.dtype.kind == "c":
            classes = "; or the label must hold class numbers, whole, one a row" if self.takes_classes else ""
            raise OperandError(
                f"{self.type} of an output {output.type} and a label {label.type}",
                rule=f"output and label must have one shape, output real, label not complex{classes}",
                fix="reshape the label, or give class numbers as int64" if self.takes_classes else "reshape the label",
            )
        return self._scalar(self.record(output, label))

    def record_classes(self, output: Expr, label: Expr) -> Expr:
        """Record the loss of labels that are class numbers: as that of rows with a one at the class."""
        return self.record(output, one_hot(label, output.shape[-1], output.dtype))

    def _holds_classes(self, output: Expr, label: Expr) -> bool:
        is_whole = label.dtype.kind in "iu" and is_floating(output.dtype)
        return self.takes_classes and is_whole and output.ndim > 0 and label.shape == output.shape[:-1]

    def _scalar(self, loss: Any) -> Expr:
        if not isinstance(loss, Expr) or loss.shape:
            raise DeclarationError(
                f"record() of the loss {self.type} returned {getattr(loss, 'type', type(loss).__name__)}",
                rule="a loss must be a scalar expression",
                fix="take the mean: x.mean()",
            )
        return loss

    def __repr__(self) -> str:
        return f"{self.type}()"


class MeanSquaredError(Loss):
    """The mean of (output − label)² over all elements."""

    def record(self, output: Expr, label: Expr) -> Expr:
        """Record the loss, a scalar."""
        difference = output - label
        return (difference * difference).mean()


@named_methods
class CrossEntropy(Loss):
    """−Σ label · log softmax(output) over the last axis, the mean over the samples; the output is scores (logits).

    Labels are class numbers, or probabilities of the output's shape. ``smoothing`` takes this share of each label and
    spreads it evenly over all classes. Samples of the class number ``ignored``, such as −100, count for nothing: the
    mean is that of the others. For class numbers, scores of −∞ are classes that are ruled out.

    >>> ex.train.CrossEntropy(ignored=-100)(np.zeros((3, 2)), np.array([1, 0, -100]))
    0.6931471805599453
    """

    takes_classes = True

    def __init__(self, smoothing: float = 0.0, ignored: int | None = None) -> None:
        number = smoothing.item() if isinstance(smoothing, (np.floating, np.integer)) else smoothing
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number <= 1:
            raise OperandError(
                f"CrossEntropy(smoothing={smoothing!r})",
                rule="smoothing must be a share, from 0 to 1",
                fix="CrossEntropy(smoothing=0.1)",
            )
        self.smoothing: float = number
        self.ignored = None if ignored is None else check_whole(ignored, "ignored", "CrossEntropy(ignored=-100)")
        # Parts of a batch have different numbers of samples that count.
        self.averages_samples = self.ignored is None

    def record(self, output: Expr, label: Expr) -> Expr:
        """Record the loss, a scalar, of labels that are probabilities."""
        if self.ignored is not None:
            raise OperandError(
                f"{self!r} of a label {label.type} of probabilities",
                rule="only labels of class numbers, one a row, can be ignored by their number",
                fix="CrossEntropy(), and leave these samples out",
            )
        if self.smoothing:
            label = label * (1 - self.smoothing) + self.smoothing / output.shape[-1]
        return -(label * log_softmax(output, -1)).sum(-1).mean()

    def record_classes(self, output: Expr, label: Expr) -> Expr:
        """Record the loss of labels that are class numbers."""
        counts = None if self.ignored is None else not_equal(label, self.ignored)
        # A number of no class would be refused.
        classes = label if counts is None else where(counts, label, 0)
        logarithms = log_softmax(output, -1)
        # Chosen, and not multiplied by rows of ones and zeros: 0 · −∞ is no number.
        losses = -where(one_hot(classes, output.shape[-1], np.bool_), logarithms, 0.0).sum(-1)
        if self.smoothing:
            losses = losses * (1 - self.smoothing) - logarithms.mean(-1) * self.smoothing
        if counts is None:
            return losses.mean()
        # A quotient of means: the sums of halves would overflow.
        return where(counts, losses, 0.0).mean() / counts.astype(output.dtype).mean()

    def __repr__(self) -> str:
        smoothing = [f"smoothing={self.smoothing}"] if self.smoothing else []
        ignored = [] if self.ignored is None else [f"ignored={self.ignored}"]
        return f"{self.type}({', '.join(smoothing + ignored)})"


class NegativeLogLikelihood(Loss):
    """−Σ label · log(output) / Σ label of probabilities, after a softmax, say (``ex.nll_loss``).

    Labels are class numbers, or weights of the output's shape. The plan makes the stable form of a softmax before it.
    """

    takes_classes = True

    def record(self, output: Expr, label: Expr) -> Expr:
        """Record the loss, a scalar."""
        return nll_loss(label, output)


class BinaryCrossEntropy(Loss):
    """The mean of −(t·log p + (1 − t)·log(1 − p)) over all elements; the output p is a probability.

    A probability below the least normal number of its dtype counts as that, so that the loss stays finite.
    """

    def record(self, output: Expr, label: Expr) -> Expr:
        """Record the loss, a scalar."""
        # A lower bound, not an addend: probabilities above it keep their bits, and their gradients too.
        least = float(np.finfo(output.dtype).tiny)
        yes, no = log(maximum(output, least)), log(maximum(1.0 - output, least))
        return -(label * yes + (1.0 - label) * no).mean()
