"""The first sorted elements, found by a partial sort: against a complete sort, with ties and NaN."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from explorer.ops.reduction.sorting import ArgSort


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8", "int64"])
def test_the_first_elements_equal_those_of_a_complete_sort(dtype: str, descending: bool) -> None:
    random = np.random.default_rng(0)
    for spread in (3, 1000):  # many ties, few ties
        x = random.integers(0, min(spread, 100), (4, 90, 7)).astype(dtype)
        for axis in (0, 1, 2):
            for count in (0, 1, 5, x.shape[axis]):
                if count > x.shape[axis]:
                    continue
                whole = ArgSort(axis, descending).compute(x)
                first = ArgSort(axis, descending, count).compute(x)
                np.testing.assert_array_equal(first, whole.take(range(count), axis))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("row", [[np.nan] * 40, [1.0, np.nan, *[0.0] * 38], [np.inf, -np.inf, *[0.0, -0.0] * 19]])
def test_nan_is_larger_than_every_number_and_infinities_are_numbers(row: list[float], descending: bool) -> None:
    x = np.array([row, list(range(40))])
    whole, first = ArgSort(1, descending).compute(x), ArgSort(1, descending, 3).compute(x)
    np.testing.assert_array_equal(first, whole[:, :3])


def test_topk_is_one_sort_and_one_gather() -> None:
    x = ex.tensor(np.random.default_rng(1).standard_normal((2, 50)).astype(np.float32))
    values, places = ex.topk(x, 4)
    assert (places.operation.name, values.operation.name) == ("argsort", "take_along")
    np.testing.assert_array_equal(ex.evaluate(values), -np.sort(-x.array)[:, :4])
    with pytest.raises(ex.OperandError, match="count must be in 0 … 50"):
        ArgSort(1, False, 51)(x)
