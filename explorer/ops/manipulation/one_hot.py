"""One-hot encoding of integer class labels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.ir.operation_examples import Example, integers
from explorer.core.registry import public
from explorer.core.types.tensor_type import AnyType, Array, TensorType, as_dtype, as_integer

__all__ = ["one_hot"]

_MAX_CACHED_CLASSES = 64
"""maximum number of classes for which one-hot rows are cached"""


class OneHotEncoding(Operation):
    """One-hot rows: 1 at the index of each class label, 0 elsewhere."""

    name = "one_hot"
    family = "movement"
    classes: int
    dtype: np.dtype[Any] = np.dtype("float32")
    nondifferentiable = "integer labels have no derivative"
    examples = (Example(integers(4, high=3), classes=3),)

    def infer(self, labels: TensorType) -> TensorType:
        if labels.dtype.kind not in "iu" or self.classes < 1:
            raise self.refuse((labels,), f"labels must be integers in 0 … classes − 1 ({self.classes} classes)")
        return TensorType((*labels.shape, self.classes), self.dtype)

    def kernel(self, out: Array, labels: Array) -> Array:
        _check_labels(labels, self.classes)
        if self._is_cached(labels):
            # copy a cached row for each label, instead of comparing and converting each element
            return _rows(self.classes, out.dtype).take(labels, 0, out, "clip")
        return np.equal(labels[..., None], np.arange(self.classes, like=labels), out=out, casting="unsafe")

    def bind_kernel(self, out: Array, labels: Array) -> Callable[[], Any]:
        if not self._is_cached(labels):
            return super().bind_kernel(out, labels)
        rows, unsigned, classes = _rows(self.classes, out.dtype), _unsigned(labels), self.classes

        def encode() -> Array:
            if labels.size and np.maximum.reduce(unsigned, None) >= classes:
                _check_labels(labels, classes)
            return rows.take(labels, 0, out, "clip")

        return encode

    def _is_cached(self, labels: Array) -> bool:
        # cached rows are NumPy arrays, which kernels on other devices cannot read
        return self.classes <= _MAX_CACHED_CLASSES and type(labels) is np.ndarray and np.can_cast(labels.dtype, np.intp)

    def batch(self, size: int, batched: tuple[bool, ...], labels: Expr) -> Expr:
        return self(labels)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0


class Labels(Operation):
    """Class labels, checked to be less than the number of classes.

    Rewrite rules that replace a one-hot encoding by a gather insert this operation before the gather, so that labels
    out of range are still rejected.
    """

    classes: int
    nondifferentiable = "integer labels have no derivative"
    examples = (Example(integers(4, high=3), classes=3),)

    def infer(self, labels: TensorType) -> TensorType:
        if labels.dtype.kind not in "iu" or self.classes < 1:
            raise self.refuse((labels,), f"labels must be integers in 0 … classes − 1 ({self.classes} classes)")
        return labels

    def kernel(self, out: Array, labels: Array) -> Array:
        _check_labels(labels, self.classes)
        np.copyto(out, labels)
        return out

    def batch(self, size: int, batched: tuple[bool, ...], labels: Expr) -> Expr:
        return self(labels)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0


@functools.lru_cache(maxsize=16)
def _rows(classes: int, dtype: np.dtype[Any]) -> Array:
    """Return an identity matrix, whose rows are the one-hot vectors of all classes."""
    return np.eye(classes, dtype=dtype)


def _unsigned(labels: Array) -> Array:
    """Return ``labels`` viewed as unsigned integers.

    A negative label is then a very large number, so the maximum detects all labels out of range.
    """
    return labels.view(f"u{labels.itemsize}")


def _check_labels(labels: Array, classes: int) -> None:
    if labels.size and _unsigned(labels).max() >= classes:
        wrong = int(labels.min()) if labels.min() < 0 else int(labels.max())
        raise ValueError(f"label {wrong} with {classes} classes: labels must be in 0 … {classes - 1}")


@public
def one_hot(labels: Any, classes: int, dtype: Any = np.float32) -> Expr:
    """Encode class labels as one-hot rows: (…) integers → (…, classes).

    A label outside 0 … classes − 1 raises RunError when the kernel runs. (ONNX: OneHot; PNNX: F.one_hot.)

    >>> ex.evaluate(ex.one_hot(np.array([0, 2]), 3))
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    (labels,) = as_operands((labels,))
    return OneHotEncoding(as_integer(classes, "one_hot: classes"), as_dtype(dtype))(labels)
