"""NumPy's functions on expressions record the operations of their names, or say what they cannot do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex

A = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -4.0]])
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "ufunc": lambda a: np.exp(a),
    "array on the left": lambda a: np.ones(3) + a,
    "scalar of numpy on the left": lambda a: np.float64(2.0) * a,
    "matmul": lambda a: np.ones((4, 2)) @ a,
    "sum": lambda a: np.sum(a),
    "sum axis": lambda a: np.sum(a, axis=-1, keepdims=True),
    "mean": lambda a: np.mean(a, 0),
    "max": lambda a: np.max(a, axis=1),
    "amin": lambda a: np.amin(a),
    "add.reduce": lambda a: np.add.reduce(a, axis=1),
    "maximum.reduce": lambda a: np.maximum.reduce(a, axis=0, keepdims=True),
    "concatenate": lambda a: np.concatenate([a, np.zeros((1, 3)), a], axis=0),
    "stack": lambda a: np.stack([a, A], axis=-1),
    "where": lambda a: np.where(a > 0, a, 0.0),
    "reshape": lambda a: np.reshape(a, (3, 2)),
    "transpose": lambda a: np.transpose(a),
    "expand_dims": lambda a: np.expand_dims(a, 1),
    "squeeze": lambda a: np.squeeze(a[:1], axis=0),
    "broadcast_to": lambda a: np.broadcast_to(a, (5, 2, 3)),
    "shape": lambda a: np.array(np.shape(a)),
    "ndim and size": lambda a: np.array([np.ndim(a), np.size(a), np.size(a, 1)]),
}


@pytest.mark.spec("M-O1")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_numpy_record(name: str) -> None:
    """np.exp(a), np.ones(3) + a, np.concatenate([a, b]) and others record, with NumPy's values."""
    expected = FUNCTIONS[name](A)
    value = FUNCTIONS[name](ex.tensor(A))
    np.testing.assert_allclose(ex.evaluate(value) if isinstance(value, ex.Expr) else value, expected, rtol=1e-14)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "out": lambda a: np.exp(a, out=np.empty((2, 3))),
    "where": lambda a: np.exp(a, where=A > 0),
    "dtype": lambda a: np.exp(a, dtype=np.float32),
    "sum dtype": lambda a: np.sum(a, dtype=np.float32),
    "sum where": lambda a: np.sum(a, where=A > 0),
    "sum out": lambda a: np.sum(a, out=np.empty(())),
    "in place": lambda a: np.add(A.copy(), a, out=A.copy()),
    "reduceat": lambda a: np.add.reduceat(a, [0]),
    "accumulate": lambda a: np.add.accumulate(a),
    "outer": lambda a: np.add.outer(a, a),
    "where of one": lambda a: np.where(a > 0),
    "sum dtype by place": lambda a: np.sum(a, 0, np.float32),
    "std dtype by place": lambda a: np.std(a, 0, np.float32),
    "concatenate dtype": lambda a: np.concatenate([a, a], dtype=np.float32),
    "reshape order": lambda a: np.reshape(a, (3, 2), order="F"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_recorded_is_refused(name: str) -> None:
    with pytest.raises(ex.OperandError):
        REFUSED[name](ex.tensor(A))


def test_a_function_that_no_operation_has_is_named() -> None:
    with pytest.raises(ex.UnknownNameError, match=r"np\.nextafter"):
        np.nextafter(ex.tensor(A), 2.0)
    with pytest.raises(ex.UnknownNameError, match=r"np\.select"):
        np.select([ex.tensor(A) > 0], [1.0], 0.0)


def test_defaults_given_by_name_are_harmless() -> None:
    assert np.exp(ex.tensor(A), out=None, where=True, dtype=None).operation.name == "exp"
    assert np.sum(ex.tensor(A), axis=0, dtype=None, out=None).shape == (3,)


@pytest.mark.spec("M-O6")
def test_numpy_numbers_are_limits_of_clip() -> None:
    """A NumPy number is an attribute as Python's is: np.clip(a, np.float32(0), np.float64(1))."""
    value = np.clip(ex.tensor(A), np.float32(0), np.float64(1))
    np.testing.assert_array_equal(ex.evaluate(value), np.clip(A, 0, 1))
