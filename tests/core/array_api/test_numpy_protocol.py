"""NumPy functions of expressions record the operation of the same name, or raise an error with an alternative."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.array_api.numpy_compositions import HINTS

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
    "shape by name": lambda a: np.array(np.shape(a=a)),
    "zeros_like": lambda a: np.zeros_like(a) + a,
    "ones_like": lambda a: np.ones_like(a=a, dtype=np.float32) * a,
    "vstack": lambda a: np.vstack([a, A, a[0]]),
    "vstack of vectors": lambda a: np.vstack((a[0], [1, 2, 3])),
    "hstack": lambda a: np.hstack([a, A]),
    "hstack of vectors and numbers": lambda a: np.hstack([a[0], 3.0, a[1]]),
    "column_stack": lambda a: np.column_stack([a.T, a[0]]),
    "column_stack of vectors": lambda a: np.column_stack([a[0], a[1]]),
    "ravel": lambda a: np.ravel(a) + np.ravel(a, order="C"),
    "ravel of one": lambda a: np.ravel(a[0, 0]),
    "swapaxes": lambda a: np.swapaxes(a[None] + np.ones((4, 1, 1)), 0, -1),
    "outer": lambda a: np.outer(a, [1, 2]) + np.outer(a[:, :1], np.ones((2, 1))).sum(),
    "inner": lambda a: np.inner(a, A),
    "inner of vectors": lambda a: np.inner(a[0], a[1]),
    "matrix_transpose": lambda a: np.matrix_transpose(a[None]),
    "flipud": lambda a: np.flipud(a),
    "fliplr": lambda a: np.fliplr(a),
    "round": lambda a: np.round(a) + np.around(a * 5, decimals=0),
    "round of integers": lambda a: np.round((a * 3).astype(np.int32)),
    "fix": lambda a: np.fix(a),
    "einsum of lists": lambda a: np.einsum(a, [0, 1], A, [2, 1], [2, 0]),
    "einsum of lists without a result": lambda a: np.einsum(a, (1, 0), A, (2, 0), optimize=True),
    "einsum of lists to a number": lambda a: np.einsum(a, [0, 51], []),
    "einsum of lists with ellipses": lambda a: np.einsum(a, [..., 30], a.T, [30, 7], [..., 7]),
    "einsum of one": lambda a: np.einsum(a, [1, 0]),
    "real": lambda a: np.real(a * 2j) + np.real(val=a),
    "imag": lambda a: np.imag(a * 2j) + np.imag(a),
    "conj": lambda a: np.imag(np.conj(a * 1j)),
    "nextafter": lambda a: np.nextafter(a, 0.0),
    "vecdot": lambda a: np.linalg.vecdot(a * 1j, a * (2 + 1j), axis=0),
    "var of a fraction": lambda a: np.var(a, correction=0.5),
    "searchsorted": lambda a: np.searchsorted(np.array([0.0, 1.0, np.nan]), np.where(a > 0, a, np.nan), side="right"),
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
    "vstack dtype": lambda a: np.vstack([a, a], dtype=np.float32),
    "ravel order": lambda a: np.ravel(a, "F"),
    "round decimals": lambda a: np.round(a, 1),
    "swapaxes of none": lambda a: np.swapaxes(a, 0, 5),
    "einsum dtype": lambda a: np.einsum("ij->i", a, dtype=np.float32),
    "einsum of many axes": lambda a: np.einsum(a, [0, 52]),
    "einsum of negative axes": lambda a: np.einsum(a, [-1, 0]),
    "einsum without an equation": lambda a: np.einsum(a, a),
    "einsum of letters": lambda a: np.einsum(a, ["i", "j"]),
    "where of one": lambda a: np.where(a > 0),
    "sum dtype by place": lambda a: np.sum(a, 0, np.float32),
    "std dtype by place": lambda a: np.std(a, 0, np.float32),
    "concatenate dtype": lambda a: np.concatenate([a, a], dtype=np.float32),
    "reshape order": lambda a: np.reshape(a, (3, 2), order="F"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_numpy_calls_raise_an_error(name: str) -> None:
    with pytest.raises(ex.OperandError):
        REFUSED[name](ex.tensor(A))


def test_the_error_of_an_einsum_of_lists_shows_the_lists() -> None:
    """The error contains no equation, since none was given."""
    with pytest.raises(ex.OperandError, match=r"(?s)np\.einsum of an operand and \['i'\].*np\.einsum\(a, \[0, 1\]"):
        np.einsum(ex.tensor(A), ["i"])


@pytest.mark.parametrize("name", HINTS)
def test_the_error_of_an_unrecorded_function_suggests_recorded_ones(name: str) -> None:
    """The suggestion is recorded in the graph, and all suggested functions exist."""
    module, _, own = name.rpartition(".")
    function = getattr(np.linalg if module else np, own)
    with pytest.raises(ex.OperandError) as caught:
        ex.tensor(A).__array_function__(function, (), (), {})
    assert caught.value.given == f"np.{name} of an expression"
    assert caught.value.fix.startswith(f"write {HINTS[name]}; or evaluate first: np.{name}(")
    assert all(hasattr(ex, each) for each in re.findall(r"\bex\.(\w+)", HINTS[name]))


@pytest.mark.parametrize(
    ("call", "fix"),
    [
        (lambda a: np.dstack([a, a]), "ex.concatenate"),
        (lambda a: np.nanmax(a, axis=0), "ex.max(ex.where"),
        (lambda a: np.delete(a, 0, axis=1), "slices"),
        (lambda a: np.full_like(a, 2), "ex.broadcast_to"),
        (lambda a: np.average(a, weights=A), "ex.sum(x * w"),
        (lambda a: np.isclose(a, A), "ex.absolute(a - b)"),
    ],
)
def test_the_error_of_a_rejected_call_suggests_an_alternative(call: Callable[[Any], Any], fix: str) -> None:
    with pytest.raises(ex.OperandError) as caught:
        call(ex.tensor(A))
    assert fix in caught.value.fix


def test_the_error_of_a_function_without_an_operation_contains_its_name() -> None:
    with pytest.raises(ex.UnknownNameError, match=r"np\.spacing"):
        np.spacing(ex.tensor(A))
    with pytest.raises(ex.UnknownNameError, match=r"np\.unwrap"):
        np.unwrap(ex.tensor(A))


def test_defaults_given_as_keywords_are_accepted() -> None:
    assert np.exp(ex.tensor(A), out=None, where=True, dtype=None).operation.name == "exp"
    assert np.sum(ex.tensor(A), axis=0, dtype=None, out=None).shape == (3,)


@pytest.mark.spec("M-O6")
def test_numpy_numbers_can_be_limits_of_clip() -> None:
    """A NumPy number becomes an attribute as a Python number does: np.clip(a, np.float32(0), np.float64(1))."""
    value = np.clip(ex.tensor(A), np.float32(0), np.float64(1))
    np.testing.assert_array_equal(ex.evaluate(value), np.clip(A, 0, 1))
