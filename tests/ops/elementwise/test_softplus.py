"""log(1 + eˣ) against double precision, and at both limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.ops.elementwise.unary import softplus


@pytest.mark.parametrize(("dtype", "units"), [("float16", 0.5), ("float32", 2.5), ("float64", 2)])
def test_softplus_is_accurate_to_the_last_digits(dtype: str, units: float) -> None:
    """A half is rounded once; below −15 the result is eˣ, which log(1 + eˣ) would lose."""
    x = np.concatenate([np.linspace(-15, 30, 20001), np.linspace(-80, 80, 999) if dtype != "float16" else []])
    x = x.astype(dtype)
    expected = np.logaddexp(x.astype(np.float64), 0)
    result = softplus.compute(x)
    assert result.dtype == x.dtype
    assert np.all(np.abs(result - expected) <= units * np.spacing(expected.astype(dtype)).astype(np.float64))


def test_softplus_at_both_limits_and_of_integers() -> None:
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_array_equal(
            softplus.compute(np.array([np.inf, -np.inf, np.nan, 1e300, -1e300])), [np.inf, 0, np.nan, 1e300, 0]
        )
        np.testing.assert_array_equal(softplus.compute(np.array([-128, 127], np.int8)), np.float16([0, 127]))
        assert softplus.compute(np.array(0.0)).shape == ()


@pytest.mark.parametrize("function", [ex.sigmoid, ex.silu, lambda x: ex.sigmoid(-x)])
def test_sigmoids_of_half_precision_are_rounded_once(function: Any) -> None:
    """e⁻ˣ overflows in float16 below −11.1, where float16 can still represent the sigmoid."""
    x = np.linspace(-16, 16, 201).astype(np.float16)
    right = ex.evaluate(function(ex.tensor(x.astype(np.float64))))
    np.testing.assert_allclose(ex.evaluate(function(ex.tensor(x))), right, rtol=2e-3, atol=1e-7)
