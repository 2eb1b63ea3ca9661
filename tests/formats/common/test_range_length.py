"""Length of a range, as in Python and NumPy, computed before any element is created."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.formats.common.operator_checks import range_length

WHOLE = st.integers(-(2**63), 2**63 - 1) | st.integers(-50, 50)


@given(WHOLE, WHOLE, WHOLE.filter(bool))
def test_integers_are_counted_exactly(start: int, end: int, step: int) -> None:
    """The count equals the length of Python's range, even where a division of floats would round."""
    numbers = range(start, end, step)
    expected = (numbers[-1] - start) // step + 1 if numbers else 0
    assert range_length(start, end, step, "Range") == expected


@given(*[st.integers(-64, 64)] * 2, st.integers(-64, 64).filter(bool))
def test_real_numbers_are_counted_as_numpy_does(start: int, end: int, step: int) -> None:
    assert range_length(start / 8, end / 8, step / 8, "Range") == len(np.arange(start / 8, end / 8, step / 8))


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, np.inf, -np.inf, np.nan])
def test_a_range_that_no_array_could_store_raises_an_error(number: float, place: int) -> None:
    """Bounds or steps that are not finite or exceed int64, and a step of 0, are rejected."""
    numbers = [0, 1, 1]
    numbers[place] = number  # type: ignore[call-overload]  # a float too
    with pytest.raises(ex.OperandError, match="Range from"):
        range_length(*numbers, "Range")
    with pytest.raises(ex.OperandError, match="its step must not be 0"):
        range_length(0, 1, 0, "Range")
