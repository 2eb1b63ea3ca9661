"""Class weights of losses: how much a sample of each class counts for, where some classes are rare."""

from __future__ import annotations

import math
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
    is_listed = isinstance(weights, (Sequence, np.ndarray)) and not isinstance(weights, str)
    numbers = [x.item() if isinstance(x, np.generic) else x for x in weights] if is_listed else []
    is_right = bool(numbers) and all(type(x) in (int, float) and math.isfinite(x) and x >= 0 for x in numbers)
    if not is_right or not any(numbers):
        raise OperandError(
            f"{loss}(class_weights={weights!r})",
            rule="class_weights must be a list of finite numbers of 0 or more, one for each class, not all 0",
            fix=f"{loss}(class_weights=[1.0, 2.0]) for two classes",
        )
    return tuple(map(float, numbers))


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
    return tensor(np.array(weights), output.dtype, name="class weights", device=output.device)
