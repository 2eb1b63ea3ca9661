"""Elements assigned or added at indices: NumPy's values, the last one for equal indices, and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from tests.support.refusals import refused

X = np.arange(12.0).reshape(3, 4)
PLACES = np.array([[1, -1, 1], [0, 2, 3]])
VALUES = np.array([[10.0, 20.0, 30.0], [40.0, 50.0, 60.0]])


def test_assignment_keeps_the_last_value_and_addition_all() -> None:
    put, added = X.copy(), X.copy()
    for row, column in np.ndindex(PLACES.shape):
        put[row, PLACES[row, column]] = VALUES[row, column]
        added[row, PLACES[row, column]] += VALUES[row, column]
    np.testing.assert_array_equal(ex.evaluate(ex.put_along_axis(X, PLACES, VALUES, 1)), put)
    np.testing.assert_array_equal(ex.evaluate(ex.add_along_axis(X, PLACES, VALUES, 1)), added)
    rows = np.array([[2], [0]])
    expected = X.copy()
    expected[2, 0], expected[0, 0] = 7, 7
    np.testing.assert_array_equal(ex.evaluate(ex.put_along_axis(X, rows, 7, 0)), expected)


def test_an_overwritten_value_has_no_gradient() -> None:
    x, values = ex.tensor(X), ex.tensor(VALUES)
    weights = np.arange(1.0, 13.0).reshape(3, 4)
    of_x, of_values = ex.grad(ex.sum(ex.put_along_axis(x, PLACES, values, 1) * weights), [x, values])
    kept = weights.copy()
    kept[0, [1, 3]] = kept[1, [0, 2, 3]] = 0
    np.testing.assert_array_equal(ex.evaluate(of_x), kept)
    # 10 was assigned to the position of 30 first
    np.testing.assert_array_equal(ex.evaluate(of_values), [[0, 4, 2], [5, 7, 8]])


@pytest.mark.parametrize("write", [ex.put_along_axis, ex.add_along_axis])
def test_mismatching_operands_raise_an_error(write: object) -> None:
    assert callable(write)
    with refused(ex.OperandError, "indices"):
        write(X, np.zeros((4, 1), int), 1.0, 1)
    with refused(ex.OperandError, "indices"):
        write(X, np.zeros((3, 1)), 1.0, 1)
    with refused(ex.OperandError, "values"):
        write(X, PLACES, ex.tensor(VALUES[:1]), 1)
    with pytest.raises(ex.RunError, match="row 4"):
        ex.evaluate(write(X, np.full((3, 1), 4), 1.0, 1))


@pytest.mark.parametrize("values", [2.7, 300, [[1.0], [2.0], [3.0]], np.full((3, 1), 300), 1j])
def test_values_outside_the_dtype_raise_an_error(values: object) -> None:
    with refused(ex.OperandError, "values", "dtype of x"):
        ex.put_along_axis(np.zeros((3, 4), np.int8), np.zeros((3, 1), int), values, 1)


def test_plain_values_are_converted_to_the_dtype() -> None:
    x = np.zeros((3, 4), np.float32)
    for values in (7, True, [[1], [2], [3]], 0.1):
        y = ex.evaluate(ex.put_along_axis(x, np.zeros((3, 1), int), values, 1))
        np.testing.assert_array_equal(y[:, :1], np.broadcast_to(np.float32(values), (3, 1)), strict=True)


@pytest.mark.parametrize("length", [128, 200])
def test_a_narrow_index_dtype_counts_from_the_end_of_a_long_axis(length: int) -> None:
    x, places = np.arange(float(length)), np.array([-1, 2, -128], np.int8)
    np.testing.assert_array_equal(ex.evaluate(ex.take(x, places)), x[places])
    np.testing.assert_array_equal(ex.evaluate(ex.take_along_axis(x, places, 0)), x[places])
    expected = x.copy()
    expected[places] = -1
    np.testing.assert_array_equal(ex.evaluate(ex.put_along_axis(x, places, -1, 0)), expected)
