"""Elements written and added at indices: NumPy's values, the last of equal places, and gradients to what stayed."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from tests.support.refusals import refused

X = np.arange(12.0).reshape(3, 4)
PLACES = np.array([[1, -1, 1], [0, 2, 3]])
VALUES = np.array([[10.0, 20.0, 30.0], [40.0, 50.0, 60.0]])


def test_the_last_value_stays_and_all_are_added() -> None:
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


def test_a_replaced_value_gets_no_gradient() -> None:
    x, values = ex.tensor(X), ex.tensor(VALUES)
    weights = np.arange(1.0, 13.0).reshape(3, 4)
    of_x, of_values = ex.grad(ex.sum(ex.put_along_axis(x, PLACES, values, 1) * weights), [x, values])
    kept = weights.copy()
    kept[0, [1, 3]] = kept[1, [0, 2, 3]] = 0
    np.testing.assert_array_equal(ex.evaluate(of_x), kept)
    # 10 was written to the place of 30 first
    np.testing.assert_array_equal(ex.evaluate(of_values), [[0, 4, 2], [5, 7, 8]])


@pytest.mark.parametrize("write", [ex.put_along_axis, ex.add_along_axis])
def test_what_does_not_fit_is_refused(write: object) -> None:
    assert callable(write)
    with refused(ex.OperandError, "indices"):
        write(X, np.zeros((4, 1), int), 1.0, 1)
    with refused(ex.OperandError, "indices"):
        write(X, np.zeros((3, 1)), 1.0, 1)
    with refused(ex.OperandError, "values"):
        write(X, PLACES, ex.tensor(VALUES[:1]), 1)
    with pytest.raises(ex.RunError, match="row 4"):
        ex.evaluate(write(X, np.full((3, 1), 4), 1.0, 1))
