"""Factors beyond a float's range next to powers: no rule makes a result worse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer as ex
from tests.support.exact import exact

Build = Callable[[Any], Any]
NUMBERS = [1e-300, 1e-160, 1e-30, 1.0, 3.0, 1e30, 1e160, 1e300]
FORMS: dict[str, Build] = {
    "a sum of a large and a small one": lambda p: ex.log(p * 1e300 + p * p * 1e-300),
    "the same, no log": lambda p: (p * 1e-300 + p * p * 1e300) / p,
    "the least float": lambda p: ex.log(p * 1e300 + p * p * 5e-324),
    "a cube": lambda p: (p * 1e200) ** 3 / p,
    "one by a fourth power": lambda p: (p * 1e-100) ** -4 * p,
    "a power and a half": lambda p: (p * 1e250) ** 1.5 / p,
    "two small ones": lambda p: ex.log(p * 1e-300 * 1e-300),
    "two large ones": lambda p: ex.log(p * 1e300 * 1e300),
    "a mean of small ones": lambda p: ex.log((p * 1e-300 * 1e-5).mean()),
    "a product with small ones": lambda p: ex.log((p * 1e-200) @ np.full(4, 1e-200)),
}


def both(build: Build, x: ex.Expr) -> tuple[Any, Any]:
    """Return the values of a form of eˣ, planned and as written."""
    with np.errstate(all="ignore"):
        return ex.evaluate(build(ex.exp(x)), record="off"), ex.evaluate(build(ex.exp(x)), without="simplify")


def check_is_no_worse(planned: Any, written: Any) -> None:
    """Check that a value that is finite and nonzero as written is the same when it is planned."""
    known = np.isfinite(written) & (abs(written) > 1e-290)
    np.testing.assert_allclose(np.where(known, planned, 0), np.where(known, written, 0), rtol=1e-9)


@pytest.mark.spec("P-12")
@pytest.mark.parametrize("form", FORMS)
def test_numbers_beyond_the_range_stay_as_they_are_written(form: str) -> None:
    check_is_no_worse(*both(FORMS[form], ex.tensor(np.array([-300.0, -2.0, 1.5, 690.0]))))


@pytest.mark.spec("P-12")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=100, deadline=None)
@given(
    numbers=st.lists(st.sampled_from(NUMBERS), min_size=4, max_size=4),
    times=st.sampled_from([-4.0, -1.5, 0.5, 2.0, 3.0]),
    result=st.sampled_from([ex.log, lambda p: p, ex.sqrt]),
)
def test_random_numbers_make_nothing_worse(numbers: list[float], times: float, result: Build) -> None:
    first, second, third, fourth = numbers

    def ratio(p: Any) -> Any:
        return (p * first * second + third) ** times / (1 + p * fourth)

    points = np.array([-300.0, -2.0, 1.5, 600.0])
    x = ex.tensor(points)
    planned, written = both(lambda p: result(ratio(p)), x)
    (right,) = exact([result(ratio(ex.exp(x)))], 1000)
    with np.errstate(all="ignore"):
        wanted = right.astype(float)
        error, allowed = abs(planned - wanted), 10 * abs(written - wanted) + 1e-9 * abs(wanted) + 1e-290
        # log((1 + p)³ / (1 + 3p)) is of the order of p²: terms of the order of p cancel except for their last bits
        allowed += np.where(points < 0, 1e-13 * np.exp(points), 0)
    assert not (np.isfinite(written) & np.isfinite(wanted) & ~(error <= allowed)).any(), (planned, written, wanted)


@pytest.mark.spec("P-12")
def test_factors_of_a_quotient_are_not_multiplied_first() -> None:
    """e⁻⁸⁰·10³⁰·10³⁰ is 2·10²⁵ in float32, in which 10⁶⁰ is ∞."""
    power = ex.exp(ex.tensor(np.array([-130.0, -80.0], np.float32)))
    result = ex.evaluate(power * 1e30 * 1e30 / (power + 1))
    assert result[0] == 0
    assert result[1] == pytest.approx(1.805e25, rel=1e-3)
