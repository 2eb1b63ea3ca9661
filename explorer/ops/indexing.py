"""Choosing by integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.example import Example, integers
from explorer.core.expr import Expr
from explorer.core.operation import Operation, as_operands
from explorer.core.registry import public
from explorer.core.types import AnyType, Array, TensorType, as_dtype, whole


class OneHotRows(Operation):
    """A row for each class number: 1 at the number's place, 0 elsewhere."""

    name = "one_hot"
    classes: int
    dtype: np.dtype[Any] = np.dtype("float32")
    nondifferentiable = "class numbers are integers"
    examples = (Example(integers(4, high=3), classes=3),)

    def infer(self, labels: TensorType) -> TensorType:
        if labels.dtype.kind not in "iu" or self.classes < 1:
            raise self.refuse((labels,), f"labels are integers in 0 … classes − 1 ({self.classes} classes)")
        return TensorType((*labels.shape, self.classes), self.dtype)

    def kernel(self, out: Array, labels: Array) -> Array:
        if labels.size and not (labels.min() >= 0 and labels.max() < self.classes):
            wrong = int(labels.min()) if labels.min() < 0 else int(labels.max())
            raise ValueError(f"label {wrong} with {self.classes} classes: labels lie in 0 … {self.classes - 1}")
        return np.equal(labels[..., None], np.arange(self.classes), out=out, casting="unsafe")

    def batch(self, size: int, batched: tuple[bool, ...], labels: Expr) -> Expr:
        return self(labels)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0


@public
def one_hot(labels: Any, classes: int, dtype: Any = np.float32) -> Expr:
    """A row for each class number in ``labels``: shape (…,) of integers to (…, classes)."""
    (labels,) = as_operands((labels,))
    return OneHotRows(whole(classes, "one_hot: classes"), as_dtype(dtype))(labels)
