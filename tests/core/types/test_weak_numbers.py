"""Python numbers are weak: they adopt the dtype of the tensors in the operation, as in NumPy 2."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.ops.creation import constants

DTYPES = ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64"]
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow]
NUMBERS = [True, 0, 1, 2, 0.0, 0.5, -1.5, 1e300, 2j]


@pytest.mark.spec("M-O6", headline=True)
@pytest.mark.parametrize("apply", OPERATORS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_mixed_element_types_promote_as_in_numpy(apply: Any, dtype: str) -> None:
    """Promote mixed data types as NumPy 2 does, with weak Python numbers; the dtype is known at recording."""
    array = np.ones(3, dtype)
    x = ex.tensor(array)
    weak = [number for number in NUMBERS if dtype != "bool" or type(number) is not int or apply is not operator.pow]
    for number in weak:  # np.power has no boolean loop and uses the smallest integer type, which is useless here
        for swapped in (False, True):
            pair = (number, array) if swapped else (array, number)
            with np.errstate(all="ignore"):
                try:
                    expected = apply(*pair)
                except TypeError:
                    with pytest.raises(ex.OperandError):
                        apply(number, x) if swapped else apply(x, number)
                    continue
            value = apply(number, x) if swapped else apply(x, number)
            assert value.dtype == expected.dtype, (number, swapped)
            np.testing.assert_allclose(ex.evaluate(value), expected, rtol=2e-3)


@pytest.mark.parametrize("first", DTYPES)
def test_tensors_promote_as_in_numpy(first: str) -> None:
    for second in DTYPES:
        a, b = np.ones(2, first), np.ones(3, second)[:2]
        assert (ex.tensor(a) + ex.tensor(b)).dtype == (a + b).dtype


def test_numbers_that_do_not_fit_raise_an_error() -> None:
    """int8 + 300 raises when it is written, as in NumPy."""
    x = ex.tensor(np.ones(3, np.int8))
    with pytest.raises(ex.OperandError, match="300 as an element of dtype int8"):
        x + 300
    with pytest.raises(ex.OperandError, match="-1 as an element of dtype uint8"):
        ex.tensor(np.ones(3, np.uint8)) * -1
    with pytest.raises(ex.OperandError, match="too large"):
        ex.tensor(np.ones(3, np.float32)) * 10**400


def test_infinite_numbers_keep_their_value_in_the_dtype() -> None:
    x = ex.tensor(np.ones(2, np.float32))
    np.testing.assert_array_equal(ex.evaluate(x * 1e300), [np.inf, np.inf])
    np.testing.assert_array_equal(ex.evaluate(x * float("nan")), [np.nan, np.nan])


def test_signed_zeros_and_number_types_are_different_constants() -> None:
    """0.0 and −0.0, and 1 and True, differ although they are equal dict keys."""
    x = ex.tensor(np.array([-1.0, 2.0]))
    for _ in range(2):
        assert np.signbit(ex.evaluate(x * 0.0)).tolist() == [True, False]
        assert np.signbit(ex.evaluate(x * -0.0)).tolist() == [False, True]
    ints = ex.tensor(np.array([1, 2]))
    assert [(ints + number).dtype.kind for number in (1, 1.0, True, 1.0 + 0j)] == ["i", "f", "i", "c"]


def test_numpy_numbers_are_not_weak() -> None:
    x = ex.tensor(np.ones(2, np.float32))
    assert (x * np.float64(2)).dtype == (np.float64(2) * x).dtype == np.float64
    assert (x * np.float32(2)).dtype == np.float32


def test_the_table_of_constants_is_bounded() -> None:
    x = ex.tensor(np.ones(2))
    for number in range(5000):
        x * float(number)
    assert len(constants._constants) <= 1024
    np.testing.assert_array_equal(ex.evaluate(x * 4999.0), [4999.0, 4999.0])
