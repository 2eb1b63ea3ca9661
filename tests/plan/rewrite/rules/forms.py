"""Stable compositions in the forms in which people write them, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import explorer as ex
from explorer import exp, log

Form: TypeAlias = Callable[[Any], Any]


def softmax(axis: Any = None, keepdims: bool = False) -> Form:
    """Return the softmax from exponentials and their sum."""
    return lambda x: exp(x) / exp(x).sum(axis=axis, keepdims=keepdims)


def shifted(x: Any) -> Any:
    """Return x minus the largest element of each row."""
    return x - x.max(axis=-1, keepdims=True)


def truth(x: Any) -> Any:
    """Return weights with the shape of x, one row of which is one-hot."""
    return ex.tensor(np.resize(np.array([0.0, 1.0, 0.0, 0.25, 0.25, 0.5]), x.shape).astype(x.dtype))


def entropy(p: Any) -> Any:
    return -(p * log(p)).sum()


def divergence(p: Any, q: Any) -> Any:
    return (p * (log(p) - log(q))).sum()


def cross_entropy(s: Any) -> Any:
    return -(0.25 * log(s) + 0.75 * log(1 - s)).mean()


def opposite(x: Any) -> Any:
    return x[::-1]


def single(x: Any) -> Any:
    return x.reshape((3, 1))


def solid(x: Any) -> Any:
    return x.reshape((1, 2, 1, 3))


VECTORS: dict[str, Form] = {
    "softmax of a vector": softmax(),
    "softmax of a vector, axis 0": softmax(0),
    "softmax of a vector, axis -1, kept": softmax(-1, True),
    "log softmax of a vector": lambda x: log(softmax()(x)),
    "log softmax of a vector, axis 0, kept": lambda x: log(softmax(0, True)(x)),
    "logsumexp of an axis of 1": lambda x: log(exp(single(x)).sum(axis=1)),
    "logsumexp of an axis of 1, kept": lambda x: log(exp(x[:, None]).sum(axis=1, keepdims=True)),
    "log softmax of an axis of 1": lambda x: log(softmax(1, True)(single(x))),
    "entropy of a vector": lambda x: entropy(softmax()(x)),
    "logaddexp": lambda x: log(exp(x) + exp(opposite(x))),
    "logaddexp of a number": lambda x: log(exp(x) + 0.5),
    "logaddexp of three": lambda x: log(exp(x) + exp(opposite(x)) + exp(x * 0.5)),
    "logaddexp of three, n-ary": lambda x: log(ex.add_n(exp(x), exp(opposite(x)), exp(x * 0.5))),
    "logaddexp, broadcast": lambda x: log(exp(single(x)) + exp(x)),
    "logaddexp of one for all": lambda x: log(exp(x) + exp(x[:1])),
    "log(Σ eˣ + 1)": lambda x: log(exp(x).sum() + 1),
    "log(eˣ / (eˣ + eʸ))": lambda x: log(exp(x) / (exp(x) + exp(opposite(x)))),
    "eˣ / (eˣ + eʸ)": lambda x: exp(x) / (exp(x) + exp(opposite(x))),
    "log1p(−σ)": lambda x: ex.log1p(-ex.sigmoid(x)),
    "log1p(−σ by hand)": lambda x: ex.log1p(-1 / (1 + exp(-x))),
    "log(1 − σ)": lambda x: log(1 - ex.sigmoid(x)),
    "log10 σ": lambda x: ex.log10(ex.sigmoid(x)),
    "tanh by 1 / (1 + e⁻²ˣ)": lambda x: 2 / (1 + exp(-2 * x)) - 1,
    "1 / (1 + e⁻ˣ)": lambda x: 1 / (1 + exp(-x)),
    "eˣ / (1 + eˣ)": lambda x: exp(x) / (1 + exp(x)),
    "reciprocal(1 + e⁻ˣ)": lambda x: ex.reciprocal(1 + exp(-x)),
    "reciprocal(1 + reciprocal(eˣ))": lambda x: ex.reciprocal(1 + ex.reciprocal(exp(x))),
    "1 / (1 + 1 / eˣ)": lambda x: 1 / (1 + 1 / exp(x)),
    "1 − 1 / (1 + eˣ)": lambda x: 1 - 1 / (1 + exp(x)),
    "log σ": lambda x: log(ex.sigmoid(x)),
    "log(1 / (1 + e⁻ˣ))": lambda x: log(1 / (1 + exp(-x))),
    "log(eˣ / (1 + eˣ))": lambda x: log(exp(x) / (1 + exp(x))),
    "log reciprocal(1 + e⁻ˣ)": lambda x: log(ex.reciprocal(1 + exp(-x))),
    "−log(1 + e⁻ˣ)": lambda x: -log(1 + exp(-x)),
    "log(1 − reciprocal(1 + e⁻ˣ))": lambda x: log(1 - ex.reciprocal(1 + exp(-x))),
    "log(1 − eˣ / (1 + eˣ))": lambda x: log(1 - exp(x) / (1 + exp(x))),
    "log(1 + eˣ)": lambda x: log(1 + exp(x)),
    "log(eˣ + 1)": lambda x: log(exp(x) + 1),
    "log1p(eˣ)": lambda x: ex.log1p(exp(x)),
    "x + log(1 + e⁻ˣ)": lambda x: x + log(1 + exp(-x)),
    "log(1 − eˣ)": lambda x: log(1 - exp(-abs(x) - 1)),
    "log1p(−eˣ)": lambda x: ex.log1p(-exp(-abs(x) - 1)),
    "log2 σ": lambda x: ex.log2(ex.sigmoid(x)),
    "log of a reversed σ": lambda x: log(opposite(ex.sigmoid(x))),
    "log of a part of σ": lambda x: log(ex.sigmoid(x)[1:]),
    "√(x · x)": lambda x: ex.sqrt(x * x),
    "log cosh": lambda x: log(ex.cosh(x)),
    "log((eˣ + e⁻ˣ) / 2)": lambda x: log((exp(x) + exp(-x)) / 2),
    "log(½ (eˣ + e⁻ˣ))": lambda x: log(0.5 * (exp(x) + exp(-x))),
    "logit of σ, two logs": lambda x: log(ex.sigmoid(x)) - log(1 - ex.sigmoid(x)),
    "binary cross-entropy": lambda x: cross_entropy(ex.sigmoid(x)),
    "binary cross-entropy by hand": lambda x: cross_entropy(1 / (1 + exp(-x))),
    "focal loss": lambda x: -((1 - ex.sigmoid(x)) ** 2 * log(ex.sigmoid(x))).sum(),
    "x / (1 + e⁻ˣ)": lambda x: x / (1 + exp(-x)),
}
MATRICES: dict[str, Form] = {
    "softmax": softmax(-1, True),
    "softmax, axis 0": softmax(0, True),
    "softmax, axis 0, not kept": softmax(0),
    "softmax of all": softmax(),
    "softmax of all, axes in a tuple": softmax((0, 1), True),
    "softmax of two axes of four": lambda x: softmax((1, 3), True)(solid(x)),
    "softmax of the first axes of three": lambda x: softmax((0, 1), True)(x.reshape((1, 2, 3))),
    "log softmax": lambda x: log(softmax(-1, True)(x)),
    "log softmax, axis 0, not kept": lambda x: log(softmax(0)(x)),
    "log softmax of all": lambda x: log(softmax()(x)),
    "log softmax of axes of three": lambda x: log(softmax((0, -1), True)(x.reshape((1, 2, 3)))),
    "log of a column of softmax": lambda x: log(ex.softmax(x)[:, 1]),
    "log of a softmax by hand, transposed": lambda x: log(softmax(-1, True)(x).T[1]),
    "log of chosen elements": lambda x: log(np.take_along_axis(ex.softmax(x), np.array([[1], [0]]), 1)),
    "log of elements that one-hot rows choose": lambda x: log(
        (ex.softmax(x) * ex.one_hot(np.array([1, 0]), 3, dtype=x.dtype)).sum(axis=1)
    ),
    "negative log likelihood by indices": lambda x: -log(ex.softmax(x))[np.array([0, 1]), np.array([1, 0])].mean(),
    "log of the operation softmax": lambda x: log(ex.softmax(x)),
    "logsumexp": lambda x: log(exp(x).sum(axis=-1)),
    "logsumexp, kept": lambda x: log(exp(x).sum(axis=-1, keepdims=True)),
    "logsumexp, axis 0": lambda x: log(exp(x).sum(axis=0)),
    "logsumexp of all": lambda x: log(exp(x).sum()),
    "logsumexp of two axes of four": lambda x: log(exp(solid(x)).sum(axis=(1, -1))),
    "logsumexp of the transposed": lambda x: log(exp(x).T.sum(axis=0)),
    "logsumexp by mean": lambda x: log(exp(x).mean(axis=-1)),
    "logsumexp by the mean of all": lambda x: log(ex.mean(exp(x))),
    "logsumexp, divided": lambda x: log(exp(x).sum(axis=-1) / 3),
    "logsumexp, halved": lambda x: log(0.5 * exp(x).sum(axis=-1)),
    "log(1 + Σ eˣ)": lambda x: log(1 + exp(x).sum(axis=-1)),
    "log1p(Σ eˣ)": lambda x: ex.log1p(exp(x).sum(axis=-1)),
    "logsumexp of the flattened": lambda x: log(exp(x).reshape(-1).sum()),
    "logsumexp of flattened axes": lambda x: log(exp(solid(x)).reshape((1, 6)).sum(axis=1)),
    "log10 of softmax": lambda x: ex.log10(ex.softmax(x)),
    "log10 of softmax by hand": lambda x: ex.log10(softmax(-1, True)(x)),
    "log10 of a sum": lambda x: ex.log10(exp(x).sum(axis=-1)),
    "log2 of softmax": lambda x: log(ex.softmax(x)) / np.log(2),
    "softmax without the largest": lambda x: softmax(-1, True)(shifted(x)),
    "log softmax without the largest": lambda x: log(softmax(-1, True)(shifted(x))),
    "logsumexp without the largest": lambda x: x.max(axis=-1) + log(exp(shifted(x)).sum(axis=-1)),
    "entropy": lambda x: entropy(ex.softmax(x)),
    "entropy by hand": lambda x: entropy(softmax(-1, True)(x)),
    "nll": lambda x: ex.nll_loss(truth(x), ex.softmax(x)),
    "nll by hand": lambda x: ex.nll_loss(truth(x), softmax(-1, True)(x)),
    "cross-entropy": lambda x: -(truth(x) * log(softmax(-1, True)(x))).sum(),
    "focal loss of softmax": lambda x: -((1 - ex.softmax(x)) ** 2 * log(ex.softmax(x))).sum(),
    "divergence": lambda x: divergence(ex.softmax(x), ex.softmax(0.5 * x)),
}


FORMS = {**VECTORS, **MATRICES}
INPUTS = {
    "±1e4": (1e4, -1e4, 3.0),
    "±30": (30.0, -30.0, 0.5),
    "±745": (745.0, -745.0, 0.0),
    "ties": (1e4, 1e4, -1e4),
    "all low": (-1e4, -9999.0, -1e4),
    "moderate": (0.25, -1.25, 2.0),
}


def operand(form: str, numbers: str, dtype: Any) -> Any:
    """Return the numbers as a vector, or as two rows."""
    row = np.array(INPUTS[numbers])
    return (row if form in VECTORS else np.stack([row, np.roll(row, 1)])).astype(dtype)
