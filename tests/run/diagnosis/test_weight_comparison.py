"""Comparison of two models' weights: NaN, unsigned integers, and transposed matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.record.compare.comparison import WeightDifferences


def compared(first: Any, second: Any) -> WeightDifferences:
    """Return the comparison of two nets with one weight each."""
    nets = []
    for array in (first, second):
        net = ex.Net("product")
        net.input("x", array.shape, array.dtype)
        net.GivenTensorFill([], "w", values=array, name="w")
        net.Mul(["x", "w"], "y")
        net.output("y")
        nets.append(net)
    comparison: Any = nets[0].compare(nets[1])
    weights: WeightDifferences = comparison.weights
    assert comparison.equal == (not weights.differ)
    assert str(comparison).splitlines()[-1 - len(weights.differ)] == str(weights)
    return weights


@pytest.mark.spec("V-12")
@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (np.float32([[np.nan, 1]]), np.float32([[np.nan, 1]]), ""),
        (np.float32([[np.nan, 1]]), np.float32([[2, 1]]), "1 of 2 elements differ"),
        (np.float32([[2, np.nan]]), np.float32([[2, 1]]), "1 of 2 elements differ"),
        (np.float32([[np.nan, 3]]), np.float32([[2, 1]]), "2 of 2 elements differ, by 2 at most, 1 of them"),
        (np.float32([[np.inf, 3]]), np.float32([[2, 1]]), "2 of 2 elements differ, by inf at most"),
        (np.float32([[0.0, 1]]), np.float32([[-0.0, 1]]), ""),
        (np.uint8([[0, 7]]), np.uint8([[255, 5]]), "2 of 2 elements differ, by 255 at most"),
        (np.int8([[-128, 7]]), np.int8([[127, 7]]), "1 of 2 elements differ, by 255 at most"),
        (np.float16([[60000, 1]]), np.float16([[-60000, 1]]), "1 of 2 elements differ, by 1.2e+05 at most"),
        (np.array([[True, False]]), np.array([[True, True]]), "1 of 2 elements differ"),
    ],
)
def test_values_are_compared_as_numbers(first: Any, second: Any, said: str) -> None:
    """NaN equals only NaN; differences neither wrap around nor overflow."""
    comparison = compared(first, second)
    assert comparison.equal == (not said)
    assert [line.partition(": ")[2][: len(said)] for line in comparison.differ] == [said] * bool(said)
    assert "by nan" not in str(comparison.differ)


@pytest.mark.spec("V-12")
def test_a_matrix_is_reported_as_transposed_only_if_its_values_are() -> None:
    """A square matrix with other values is reported as different."""
    square = np.float32([[1, 2], [3, 4]])
    assert compared(square, square.T.copy()).transposed == 1
    other = compared(square, square + 1)
    assert (other.transposed, len(other.differ)) == (0, 1)
    assert "1 with the same values transposed" in str(compared(square, square.T.copy()))
