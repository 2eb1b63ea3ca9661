"""Class weights of losses: how much a sample of each class counts for, where some classes are rare."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor


def as_class_weights(weights: Any, loss: str) -> tuple[float, ...] | None:
    """Return weights of classes as numbers; raises OperandError for anything but some of 0 or more, and one above."""
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
    """Record weights of classes beside an output (…, C): an operand (C,) of its dtype on its device.

    Raises OperandError for another number of classes.
    """
    classes = output.shape[-1] if output.ndim else 0
    if classes != len(weights):
        raise OperandError(
            f"{loss} with {len(weights)} class_weights of an output {output.type}",
            rule=f"there must be a weight for each class, and the output's last axis has {classes}",
            fix=f"class_weights of {classes} numbers",
        )
    return _weights_like(output, weights, f"{loss} with class_weights {max(weights):g}", "class weights")


def as_positive_weight(weight: Any) -> float | tuple[float, ...] | None:
    """Return the weight of positive labels, or one for each position of the last axis; raises OperandError for a
    number that is not finite or below 0."""
    if weight is None:
        return None
    is_one = isinstance(weight, (int, float, np.integer, np.floating)) and not isinstance(weight, bool)
    numbers = _numbers([weight] if is_one else weight)
    if numbers is None:
        raise OperandError(
            f"BinaryCrossEntropy(positive_weight={weight!r})",
            rule="positive_weight must be a finite number of 0 or more, or a list of them",
            fix="positive_weight=3.0 where a quarter of the labels are 1",
        )
    return numbers[0] if is_one else numbers


def record_positive_weight(weight: float | tuple[float, ...] | None, output: Expr) -> Expr | float | None:
    """Record the weight of positive labels beside an output, whose last axis a list of them must fit."""
    if not isinstance(weight, tuple):
        return weight
    if not output.ndim or output.shape[-1] != len(weight):
        raise OperandError(
            f"BinaryCrossEntropy with {len(weight)} positive_weight numbers of an output {output.type}",
            rule="there must be one number, or one for each position of the output's last axis",
            fix="positive_weight=3.0",
        )
    what = f"BinaryCrossEntropy with a positive_weight {max(weight):g}"
    return _weights_like(output, weight, what, "positive weights")


def _weights_like(output: Expr, weights: tuple[float, ...], what: str, name: str) -> Expr:
    """Record weights as a tensor of an output's dtype on its device; raises OperandError where it holds them not."""
    with np.errstate(over="ignore"):
        held = np.array(weights).astype(output.dtype)
    if not np.isfinite(held.astype(np.float64)).all():
        raise OperandError(
            f"{what} of an output {output.type}",
            rule=f"weights must be numbers of {output.dtype}",
            fix="smaller weights: only their ratios matter to a mean",
        )
    return tensor(held, name=name, device=output.device)


def _numbers(values: Any) -> tuple[float, ...] | None:
    """Return a list of finite numbers of 0 or more; None for anything else."""
    if not isinstance(values, (Sequence, np.ndarray)) or isinstance(values, str):
        return None
    if isinstance(values, np.ndarray) and not values.ndim:
        return None
    numbers = [x.item() if isinstance(x, np.generic) else x for x in values]
    # By comparison: a whole number may be too large to become a float at all.
    is_right = bool(numbers) and all(type(x) in (int, float) and 0 <= x <= sys.float_info.max for x in numbers)
    return tuple(map(float, numbers)) if is_right else None
