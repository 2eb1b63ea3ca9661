"""Losses of modules: squared differences, cross-entropies of scores, and likelihoods of probabilities."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.core.argument_checks import check_integer, check_type, named_methods
from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import Array, Shape
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.elementwise.arithmetic import maximum, not_equal, where
from explorer.ops.elementwise.unary import log, softplus
from explorer.ops.manipulation.one_hot import one_hot
from explorer.ops.nn.nll_loss import nll_loss
from explorer.ops.nn.softmax import log_softmax
from explorer.train.losses.loss import ReducedLoss

_UNSIGNED = {np.dtype(f"{order}i{size}"): np.dtype(f"{order}u{size}") for size in (1, 2, 4, 8) for order in "<>"}
_ROUNDING = 1e-3
"""maximum excess of a probability over 1 that rounding can cause, if it is a sum of several probabilities in float16"""


@named_methods
class MeanSquaredError(ReducedLoss):
    """Mean of (output − label)² over all elements; ``reduction`` may also be "sum" or "none"."""

    @rounded_once
    def record(self, output: Expr, label: Expr) -> Expr:
        """Record the squared differences and their reduction."""
        difference = output - label
        return self.reduced(difference * difference)


class ClassLoss(ReducedLoss):
    """Base class of losses with classes along the last axis.

    Labels are class indices, or rows with the output's shape. Samples are weighted by class.
    """

    takes_classes = True
    ignored: int | None = None

    def __init__(self, class_weights: Any = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.class_weights = as_class_weights(class_weights, self.type)

    def check_label(self, label: Array, output: Shape) -> None:
        """Raise OperandError for a class index out of range, or if no sample has a weight above 0."""
        if not output or not label.size:
            return
        if label.dtype.kind in "iu" and label.ndim < len(output):
            self._check_indices(label, output[-1])
        elif label.shape == output:
            self._check_rows(label)

    def _check_indices(self, label: Array, classes: int) -> None:
        counted = label if self.ignored is None else label[label != self.ignored]
        # As an unsigned integer, a negative index is large.
        unsigned = counted.view(_UNSIGNED.get(counted.dtype, counted.dtype))
        if counted.size and np.maximum.reduce(unsigned, None) >= classes:
            invalid = int(counted[(counted < 0) | (counted >= classes)][0])
            ignored = isinstance(self, CrossEntropy) and self.ignored is None
            raise OperandError(
                f"{self!r} of a label {invalid}, of an output with {classes} classes",
                rule=f"class indices must be in 0 … {classes - 1}" + (", unless they are ignored" if ignored else ""),
                fix=f"CrossEntropy(ignored={invalid}) ignores such samples" if ignored else "correct the labels",
            )
        if not counted.size:
            self._check_mean(label, False, "which are all ignored")
        elif self.class_weights is not None and len(self.class_weights) == classes and 0 in self.class_weights:
            self._check_mean(label, bool(np.array(self.class_weights)[counted].any()), "whose class_weights are all 0")

    def _check_rows(self, label: Array) -> None:
        """Raise OperandError if the loss is undefined for labels with the output's shape."""

    def _check_mean(self, label: Array, counts: bool, problem: str) -> None:
        """Raise OperandError if the loss is a mean over no samples, which would be NaN and corrupt the weights."""
        if self.reduction == "mean" and not counts:
            raise OperandError(
                f"{self!r} of labels {label.shape}, {problem}",
                rule="a mean must be over at least one sample that counts",
                fix="omit this batch, or use reduction='sum', whose result is 0",
            )

    def _class_weights(self, output: Expr) -> Expr | None:
        return None if self.class_weights is None else record_class_weights(self.class_weights, output, self.type)

    def settings(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, as numbers, strings and lists."""
        weights = {} if self.class_weights is None else {"class_weights": [*self.class_weights]}
        return {**weights, **super().settings()}


@named_methods
class CrossEntropy(ClassLoss):
    """Mean over samples of −Σ label · log softmax(output) along the last axis; the output contains logits.

    Labels are class indices, or probabilities with the output's shape. ``smoothing`` is the fraction of each label that
    is distributed evenly over all classes. Samples whose class index is ``ignored``, for example −100, are counted
    neither in the sum nor in the mean. ``class_weights`` contains a weight per class; for class indices, the mean is
    divided by the sum of the samples' weights. ``reduction`` is "mean", "sum", or "none" for a loss per sample. For
    class indices, a score of −∞ excludes its class. All values are as in torch.

    >>> ex.train.CrossEntropy(ignored=-100)(np.zeros((3, 2)), np.array([1, 0, -100]))
    0.6931471805599453
    >>> ex.train.CrossEntropy(class_weights=[1, 3], reduction="none")(np.zeros((2, 2)), np.array([1, 0])).round(3)
    array([2.079, 0.693])
    """

    def __init__(
        self,
        smoothing: float = 0.0,
        ignored: int | None = None,
        class_weights: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(class_weights, reduction)
        fraction = smoothing.item() if isinstance(smoothing, (np.floating, np.integer)) else smoothing
        if isinstance(fraction, bool) or not isinstance(fraction, (int, float)) or not 0 <= fraction <= 1:
            raise OperandError(
                f"CrossEntropy(smoothing={smoothing!r})",
                rule="smoothing must be a fraction, from 0 to 1",
                fix="CrossEntropy(smoothing=0.1)",
            )
        self.smoothing: float = fraction
        self.ignored = None if ignored is None else check_integer(ignored, "ignored", "CrossEntropy(ignored=-100)")

    def record(self, output: Expr, label: Expr) -> Expr:
        """Record the loss for probabilities; the mean is divided by the number of samples."""
        if self.ignored is not None:
            raise OperandError(
                f"{self!r} of a label {label.type} of probabilities",
                rule="only labels that are class indices, one per sample, can be ignored by index",
                fix="CrossEntropy(), and omit these samples",
            )
        if self.smoothing:
            label = label * (1 - self.smoothing) + self.smoothing / output.shape[-1]
        weights = self._class_weights(output)
        logarithms = log_softmax(output, -1)
        weighted = logarithms if weights is None else logarithms * weights
        return -self.reduced((label * weighted).sum(-1))

    def record_classes(self, output: Expr, label: Expr) -> Expr:
        """Record the loss for class indices."""
        is_class, counts = self._class_masks(output, label)
        weights, logarithms = self._class_weights(output), log_softmax(output, -1)
        weighted = logarithms if weights is None else logarithms * weights
        # Scores are selected, not multiplied by one-hot rows, because 0 · −∞ is NaN.
        losses = -where(is_class, weighted, 0.0).sum(-1)
        if self.smoothing:
            losses = losses * (1 - self.smoothing) - weighted.mean(-1) * self.smoothing
        if counts is not None:
            losses = where(counts, losses, 0.0)
        return self.reduced(losses, self.weights(output, label) if self.reduction == "mean" else None)

    def weights(self, output: Expr, label: Expr) -> Expr | None:
        """Record the weights of samples with class indices; ignored samples have weight 0."""
        if not self.holds_classes(output, label):
            return None
        is_class, counts = self._class_masks(output, label)
        weights = self._class_weights(output)
        if weights is None:
            return None if counts is None else counts.astype(output.dtype)
        sample_weights = where(is_class, weights, 0.0).sum(-1)
        return sample_weights if counts is None else where(counts, sample_weights, 0.0)

    def _class_masks(self, output: Expr, label: Expr) -> tuple[Expr, Expr | None]:
        """Record each sample's class index, and a mask of the samples that count (None if all do)."""
        counts = None if self.ignored is None else not_equal(label, self.ignored)
        # Replaced by 0, because an ignored index may be out of range, which one_hot rejects.
        classes = label if counts is None else where(counts, label, 0)
        return one_hot(classes, output.shape[-1], np.bool_), counts

    def settings(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, as numbers, strings and lists."""
        smoothing = {"smoothing": self.smoothing} if self.smoothing else {}
        ignored = {} if self.ignored is None else {"ignored": self.ignored}
        return {**smoothing, **ignored, **super().settings()}


@named_methods
class NegativeLogLikelihood(ClassLoss):
    """−Σ label · log(output) / Σ label; the output contains probabilities, for example from a softmax
    (``ex.nll_loss``).

    Labels are class indices, or weights with the output's shape; ``class_weights`` multiply labels of either kind. With
    ``reduction`` "sum", the loss is not divided by Σ label; "none" gives a loss per sample. After a softmax, the plan
    uses the stable form.
    """

    def record(self, output: Expr, label: Expr) -> Expr:
        """Record the negative logarithms and their reduction."""
        weights = self._class_weights(output)
        label = label if weights is None else label * weights
        if self.reduction == "mean":
            return nll_loss(label, output)
        return -self.reduced((label * log(output)).sum(-1))

    def _check_rows(self, label: Array) -> None:
        weights = 1.0 if self.class_weights is None else np.array(self.class_weights)
        if np.ndim(weights) and label.shape[-1] != np.size(weights):
            return  # rejected when the loss is recorded
        self._check_mean(label, bool((label * weights).sum()), "whose sum is 0")

    def check_output(self, output: Array) -> None:
        """Raise OperandError if the output does not contain probabilities but, for example, scores."""
        if output.size and (output.min() < 0 or output.max() > 1 + _ROUNDING):
            outside = output[(output < 0) | (output > 1 + _ROUNDING)]
            raise OperandError(
                f"{self!r} of the output {outside[0].item():g}",
                rule="outputs must be probabilities, from 0 to 1",
                fix="CrossEntropy() for scores, ex.softmax as the last node, or ex.exp for log probabilities",
            )

    def weights(self, output: Expr, label: Expr) -> Expr | None:
        """Record each sample's weight, Σ label; None for class indices without class weights."""
        weights = self._class_weights(output)
        if self.holds_classes(output, label):
            if weights is None:
                return None
            label = one_hot(label, output.shape[-1], output.dtype)
        return (label.astype(output.dtype) if weights is None else label * weights).sum(-1)


@named_methods
class BinaryCrossEntropy(ReducedLoss):
    """Mean of −(t·log p + (1 − t)·log(1 − p)) over all elements; the output p and the label t are probabilities.

    With ``logits``, the output is a score x, and p is its sigmoid; the loss and its gradient are exact even if p is
    rounded to 0 or 1. ``positive_weight``, a number or a list for the last axis, multiplies the term with t.
    ``reduction`` is "mean", "sum", or "none" for all elements. A probability below the smallest normal number of its
    dtype is replaced by that number, so the loss is finite. Raises OperandError for labels and probabilities outside 0
    … 1.

    >>> ex.train.BinaryCrossEntropy(logits=True)(np.array([0.0, 100.0]), np.array([1.0, 1.0]))
    0.34657359027997264
    """

    def __init__(self, reduction: str = "mean", logits: bool = False, positive_weight: Any = None) -> None:
        super().__init__(reduction)
        check_type(logits, "logits", bool, "True or False", "logits=True")
        self.logits = logits
        self.positive_weight = as_positive_weight(positive_weight)

    def record(self, output: Expr, label: Expr) -> Expr:
        """Record the losses of the elements and their reduction."""
        weight = record_positive_weight(self.positive_weight, output)
        weighted_label = label if weight is None else label * weight
        if self.logits:
            # log p = −softplus(−x), log(1 − p) = −softplus(−x) − x
            return self.reduced((1.0 - label) * output + (weighted_label + (1.0 - label)) * softplus(-output))
        # A lower bound, unlike an added small number, does not change larger probabilities and gradients.
        minimum = float(np.finfo(output.dtype).tiny)
        log_probability, log_complement = log(maximum(output, minimum)), log(maximum(1.0 - output, minimum))
        return -self.reduced(weighted_label * log_probability + (1.0 - label) * log_complement)

    def check_label(self, label: Array, output: Shape) -> None:
        """Raise OperandError for labels outside 0 … 1."""
        self._check_probabilities(
            label, "label", "label.clip(0, 1), or labels of 0 and 1; CrossEntropy() for scores of several classes"
        )

    def check_output(self, output: Array) -> None:
        """Raise OperandError for probabilities outside 0 … 1."""
        if not self.logits:
            self._check_probabilities(
                output, "output", "BinaryCrossEntropy(logits=True) for scores, or ex.sigmoid as the last node"
            )

    def _check_probabilities(self, values: Array, what: str, fix: str) -> None:
        if values.size and not (values.min() >= 0 and values.max() <= 1):
            outside = values[(values < 0) | (values > 1) | (np.isnan(values) & (what == "label"))]
            # NaN in the output is not reported here, because the loss will be NaN.
            if outside.size:
                raise OperandError(
                    f"{self!r} of the {what} {outside[0].item():g}",
                    rule=f"{what}s must be probabilities, from 0 to 1",
                    fix=fix,
                )

    def settings(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, as numbers, strings and lists."""
        weight = self.positive_weight
        weight_settings = (
            {} if weight is None else {"positive_weight": weight if isinstance(weight, float) else [*weight]}
        )
        return {**super().settings(), **({"logits": True} if self.logits else {}), **weight_settings}


def as_class_weights(weights: Any, loss: str) -> tuple[float, ...] | None:
    """Return class weights as numbers; raise OperandError if one is negative or none is positive."""
    if weights is None:
        return None
    numbers = _numbers(weights)
    if numbers is None or not any(numbers):
        raise OperandError(
            f"{loss}(class_weights={weights!r})",
            rule="class_weights must be a list of finite numbers of 0 or more, one for each class, not all 0",
            fix=f"{loss}(class_weights=[1.0, 2.0]) for two classes",
        )
    return numbers


def record_class_weights(weights: tuple[float, ...], output: Expr, loss: str) -> Expr:
    """Record class weights (C,) like an output (…, C); raise OperandError for another number of classes."""
    classes = output.shape[-1] if output.ndim else 0
    if classes != len(weights):
        raise OperandError(
            f"{loss} with {len(weights)} class_weights of an output {output.type}",
            rule=f"there must be one weight for each class, and the output has {classes} classes",
            fix=f"class_weights of {classes} numbers",
        )
    return _weights_like(output, weights, f"{loss} with class_weights {max(weights):g}", "class weights")


def as_positive_weight(weight: Any) -> float | tuple[float, ...] | None:
    """Return the weight of positive labels as one or several numbers; raise OperandError if one is negative or
    infinite."""
    if weight is None:
        return None
    is_one = isinstance(weight, (int, float, np.integer, np.floating)) and not isinstance(weight, bool)
    numbers = _numbers([weight] if is_one else weight)
    if numbers is None:
        raise OperandError(
            f"BinaryCrossEntropy(positive_weight={weight!r})",
            rule="positive_weight must be a finite number of 0 or more, or a list of them",
            fix="positive_weight=3.0 if a quarter of the labels are 1",
        )
    return numbers[0] if is_one else numbers


def record_positive_weight(weight: float | tuple[float, ...] | None, output: Expr) -> Expr | float | None:
    """Record the weight of positive labels for an output; a list must have the length of the output's last axis."""
    if not isinstance(weight, tuple):
        return weight
    if not output.ndim or output.shape[-1] != len(weight):
        raise OperandError(
            f"BinaryCrossEntropy with {len(weight)} positive_weight numbers of an output {output.type}",
            rule="positive_weight must be one number, or have a number for each position of the output's last axis",
            fix="positive_weight=3.0",
        )
    what = f"BinaryCrossEntropy with a positive_weight {max(weight):g}"
    return _weights_like(output, weight, what, "positive weights")


def _weights_like(output: Expr, weights: tuple[float, ...], what: str, name: str) -> Expr:
    """Record weights as a tensor like ``output``; raise OperandError if its dtype cannot represent them."""
    with np.errstate(over="ignore"):
        array = np.array(weights).astype(output.dtype)
    if not np.isfinite(array.astype(np.float64)).all():
        raise OperandError(
            f"{what} of an output {output.type}",
            rule=f"{output.dtype} must be able to represent the weights",
            fix="smaller weights: a mean depends only on their ratios",
        )
    return tensor(array, name=name, device=output.device)


def _numbers(values: Any) -> tuple[float, ...] | None:
    """Return a list of finite numbers of at least 0 as a tuple; None for anything else."""
    if not isinstance(values, (Sequence, np.ndarray)) or isinstance(values, str):
        return None
    if isinstance(values, np.ndarray) and not values.ndim:
        return None
    numbers = [x.item() if isinstance(x, np.generic) else x for x in values]
    # Compared without conversion, because an integer may be too large for a float.
    is_valid = bool(numbers) and all(type(x) in (int, float) and 0 <= x <= sys.float_info.max for x in numbers)
    return tuple(map(float, numbers)) if is_valid else None
