"""Integer matrix products, computed by BLAS in double precision where that is exact."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize(
    "shapes", [((60, 70), (70, 50)), ((3, 40, 50), (50, 30)), ((300,), (300, 200)), ((4, 90), (90,))]
)
def test_integer_products_equal_numpys(dtype: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    """Narrow dtypes wrap around; where double precision would round, every digit is correct."""
    random = np.random.default_rng(0)
    limits = np.iinfo(dtype)
    for low, high in ((0, 9), (max(limits.min, -100), min(limits.max, 100)), (limits.min, limits.max)):
        a, b = [random.integers(low, high, shape, dtype=dtype, endpoint=True) for shape in shapes]
        result = ex.evaluate(ex.tensor(a) @ ex.tensor(b))
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, a @ b)


def test_a_sum_above_the_precision_of_a_double_is_exact() -> None:
    a = np.full((40, 64), 2**27 + 1)
    b = np.full((64, 40), 2**24 + 1)
    a[0, 0], b[0, 0] = -(2**62), 3
    np.testing.assert_array_equal(ex.evaluate(ex.tensor(a) @ ex.tensor(b)), a @ b)
    edge = np.full((40, 64), np.iinfo(np.int64).min)
    np.testing.assert_array_equal(ex.evaluate(ex.tensor(edge) @ ex.tensor(b)), edge @ b)
