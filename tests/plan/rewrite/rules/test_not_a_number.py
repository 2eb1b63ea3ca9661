"""Cancelled powers never hide NaN: a NaN input that reaches an element as written makes the planned element NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer as ex
from tests.plan.rewrite.rules.asking import simplified
from tests.support.compositions import OF_ONE, OF_TWO, RESULTS, WEIGHTS, Build, positives
from tests.support.interpreter import reference

Beside = Callable[[Any, Any], Any]
exp, log = ex.exp, ex.log
FORMS: dict[str, Beside] = {
    "a factor and a power over itself": lambda w, a: w * exp(a) / exp(a),
    "a power over itself, then a factor": lambda w, a: exp(a) / exp(a) * w,
    "a power over itself": lambda w, a: exp(a) / exp(a),
    "a product over a power": lambda w, a: (w * exp(a) + exp(a)) / exp(a),
    "two powers over one": lambda w, a: exp(a) * exp(w) / exp(a),
    "opposite powers": lambda w, a: w * exp(a) * exp(-a),
    "opposite sigmoids": lambda w, a: w * (1 / (1 + exp(a))) * (1 + exp(a)),
    "a power taken from itself": lambda w, a: w + (exp(a) - exp(a)),
    "a power taken away": lambda w, a: w * exp(w) + exp(a) - exp(a),
    "a weighted power taken away": lambda w, a: a * exp(w) + exp(w) - a * exp(w),
    "a share over itself": lambda w, a: w * ex.softmax(a) / ex.softmax(a),
    "a sigmoid over itself": lambda w, a: w * ex.sigmoid(a) / ex.sigmoid(a),
    "a sum over itself": lambda w, a: w * exp(a).sum() / exp(a).sum(),
    "a sum of what cancelled": lambda w, a: (w * exp(a) / exp(a)).sum() + 0 * w,
    "a sum of kept axes": lambda w, a: w + (exp(a) / exp(a)).sum(keepdims=True) * exp(w) / exp(w),
    "a reshaped sum": lambda w, a: w + (exp(a) / exp(a) * exp(w)).reshape((3, 1)).sum(axis=0) / exp(w),
    "a sigmoid and its complement": lambda w, a: w * (ex.sigmoid(a) + (1 - ex.sigmoid(a))),
    "an axis of one element": lambda w, a: w * ex.softmax(a.reshape((3, 1)), 1).reshape((3,)),
    "the log of a cancelled power": lambda w, a: log(exp(w) * exp(a) / exp(a)),
    "the log of a sum": lambda w, a: log((exp(w) * exp(a)).sum() / exp(a)[:1] * exp(a)[:1]),
    "a power over a row": lambda w, a: (exp(a)[:, None] * exp(w) / exp(a)[:, None]).sum(axis=1),
    "a gradient of a log": lambda w, a: ex.grad(log(ex.softmax(a)), a, seed=w),
    "a gradient of a log of powers": lambda w, a: ex.grad(log(exp(a) * exp(w)), a, seed=w),
}


def is_reached(roots: Any) -> list[Any]:
    """Return where the program as written gives NaN for operands that are otherwise finite."""
    return [np.isnan(value) for value in reference(roots)]


@pytest.mark.spec("P-1", "P-12")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("place", ["w", "a"])
@pytest.mark.parametrize("form", FORMS)
def test_cancelling_powers_hide_no_nan(form: str, place: str) -> None:
    """The NaN of a cancelled power reaches the same elements as in the program as written, also in gradients."""
    numbers = {"w": np.array([0.5, -1.25, 2.0]), "a": np.array([1.5, -0.5, 0.25])}
    numbers[place][1] = np.nan
    w, a = ex.tensor(numbers["w"]), ex.tensor(numbers["a"])
    y = FORMS[form](w, a)
    slopes = [ex.grad(y, x, seed=np.resize(WEIGHTS, y.shape)) for x in (w, a)]
    roots = [y, *[slope for slope in slopes if slope.operands]]
    for planned, wanted in zip(is_reached(simplified(*roots).roots), is_reached(roots), strict=True):
        np.testing.assert_array_equal(planned, wanted)


def no_form_hides_nan(
    first: Build, second: Build, between: Beside, after: Build, result: Beside, row: list[float]
) -> None:
    """Check elements that are NaN for other values instead of ±∞, too, because their NaN comes from an input."""

    def values(numbers: Any) -> tuple[list[Any], list[Any]]:
        x = ex.tensor(numbers)
        p, q = first(x), second(x)
        y = result(after(between(p, q)), q)
        slope = ex.grad(y, x, seed=np.resize(WEIGHTS, y.shape))
        roots = [y, slope, ex.grad((slope * WEIGHTS).sum(), x)]
        return is_reached(simplified(*roots).roots), is_reached(roots)

    with np.errstate(all="ignore"):
        planned, written = values(np.array(row))
        numbers = np.where(np.isinf(row), 0.5, row)
        _, reached = values(numbers)
        for outcome, there, comes in zip(planned, written, reached, strict=True):
            assert not (there & comes & ~outcome).any(), (row, outcome, there)


FORM = {
    "first": positives(),
    "second": positives(),
    "between": st.sampled_from(OF_TWO),
    "after": st.sampled_from(OF_ONE),
    "result": st.sampled_from([*RESULTS, lambda p, q: p * q / q, lambda p, q: (p * WEIGHTS + q) / q]),
    "row": st.lists(st.sampled_from([-1.5, 0.25, 3.0, np.nan, np.inf, -np.inf]), min_size=3, max_size=3),
}


@pytest.mark.spec("P-1", "P-12")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("examples", [8, pytest.param(150, marks=pytest.mark.soak)])
def test_random_forms_are_nan_where_a_nan_input_reaches_them(examples: int) -> None:
    settings(max_examples=examples, deadline=None)(given(**FORM)(no_form_hides_nan))()
