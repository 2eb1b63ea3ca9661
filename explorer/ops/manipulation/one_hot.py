"""One-hot encoding of class numbers."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from explorer.core.ir.examples import Example, integers
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import Operation, as_operands
from explorer.core.registry import public
from explorer.core.types.tensor_type import AnyType, Array, TensorType, as_dtype, whole


class OneHotEncoding(Operation):
    """One-hot rows: 1 at the position of each class number, 0 elsewhere."""

    portable = False
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
        _check_labels(labels, self.classes)
        return np.equal(labels[..., None], _numbers(self.classes), out=out, casting="unsafe")

    def batch(self, size: int, batched: tuple[bool, ...], labels: Expr) -> Expr:
        return self(labels)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0


class Labels(Operation):
    """Class numbers, checked to lie below the number of classes.

    Rewrite rules put it before a gather when they drop a one-hot encoding, so that a label out of range is still
    refused.
    """

    classes: int
    nondifferentiable = "class numbers are integers"
    examples = (Example(integers(4, high=3), classes=3),)

    def infer(self, labels: TensorType) -> TensorType:
        if labels.dtype.kind not in "iu" or self.classes < 1:
            raise self.refuse((labels,), f"labels are integers in 0 … classes − 1 ({self.classes} classes)")
        return labels

    def kernel(self, out: Array, labels: Array) -> Array:
        _check_labels(labels, self.classes)
        np.copyto(out, labels)
        return out

    def batch(self, size: int, batched: tuple[bool, ...], labels: Expr) -> Expr:
        return self(labels)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0


@functools.lru_cache(maxsize=64)
def _numbers(classes: int) -> Array:
    return np.arange(classes)


def _check_labels(labels: Array, classes: int) -> None:
    # read without a sign, a number below 0 is beyond all classes: one pass finds it, too
    if labels.size and np.maximum.reduce(labels.view(f"u{labels.itemsize}"), axis=None) >= classes:
        wrong = int(labels.min()) if labels.min() < 0 else int(labels.max())
        raise ValueError(f"label {wrong} with {classes} classes: labels lie in 0 … {classes - 1}")


@public
def one_hot(labels: Any, classes: int, dtype: Any = np.float32) -> Expr:
    """Encode class numbers as one-hot rows: (…,) integers → (…, classes).

    A label below 0 or not below ``classes`` raises RunError when the kernel runs. (ONNX: OneHot; PNNX: F.one_hot.)

    >>> ex.evaluate(ex.one_hot(np.array([0, 2]), 3))
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    (labels,) = as_operands((labels,))
    return OneHotEncoding(whole(classes, "one_hot: classes"), as_dtype(dtype))(labels)
