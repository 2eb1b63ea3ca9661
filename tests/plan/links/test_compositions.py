"""Random compositions of powers: planning makes none of them, nor a gradient of one, worse than it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer as ex
from tests.plan.links.asking import simplified
from tests.support.exact import exact
from tests.support.interpreter import reference

Build = Callable[[Any], Any]
WEIGHTS = np.array([0.75, -1.125, 1.625])
EXPONENTS: list[Build] = [
    lambda x: x,
    lambda x: -x,
    lambda x: 2 * x,
    lambda x: x[::-1],
    lambda x: x - x.max(),
    lambda x: x.sum(keepdims=True),
]
POWERS: list[Callable[[Any], Any]] = [ex.exp, ex.softmax, ex.sigmoid, ex.cosh, lambda x: 1 - ex.sigmoid(x)]
OF_ONE: list[Callable[[Any], Any]] = [
    lambda p: 1 + p,
    lambda p: 0.5 * p,
    lambda p: p.sum(keepdims=True),
    lambda p: p.mean(keepdims=True),
    lambda p: 1 / p,
    ex.reciprocal,
    ex.square,
    ex.sqrt,
    lambda p: p / p.sum(),
    lambda p: p.reshape((3, 1)).sum(axis=1) if p.shape == (3,) else p,
]
OF_TWO: list[Callable[[Any, Any], Any]] = [
    lambda p, q: p + q,
    lambda p, q: p * q,
    lambda p, q: p / q,
    lambda p, q: p / (p + q),
    lambda p, q: ex.add_n(p, q, p),
]
RESULTS: list[Callable[[Any, Any], Any]] = [
    lambda p, q: ex.log(p),
    lambda p, q: p,
    lambda p, q: p - q,
    lambda p, q: p * ex.log(q),
    lambda p, q: ex.log1p(p) - ex.log(q),
    lambda p, q: (p * WEIGHTS).sum() / q,
    lambda p, q: (p - q) / (p + q),
    lambda p, q: ex.log10(p / q),
]


@st.composite
def positives(draw: Any, depth: int = 2) -> Build:
    """A positive value that powers are made into."""
    kind = draw(st.integers(0, 2)) if depth else 0
    if kind == 0:
        inner, power = draw(st.sampled_from(EXPONENTS)), draw(st.sampled_from(POWERS))
        return lambda x: power(inner(x))
    first = draw(positives(depth - 1))
    if kind == 1:
        of_one = draw(st.sampled_from(OF_ONE))
        return lambda x: of_one(first(x))
    second, of_two = draw(positives(depth - 1)), draw(st.sampled_from(OF_TWO))
    return lambda x: of_two(first(x), second(x))


@pytest.mark.spec("P-1", "P-12")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=150, deadline=None)
@given(
    first=positives(),
    second=positives(),
    result=st.sampled_from(RESULTS),
    row=st.lists(st.sampled_from([-800.0, -40.0, -1.5, 0.0, 0.25, 3.0, 40.0, 800.0]), min_size=3, max_size=3),
)
def test_what_is_finite_as_it_is_written_is_as_right_once_planned(
    first: Build, second: Build, result: Callable[[Any, Any], Any], row: list[float]
) -> None:
    x = ex.tensor(np.array(row))
    y = result(first(x), second(x))
    slope = ex.grad(y, x, seed=np.resize(WEIGHTS, y.shape))
    roots = [y, slope, ex.grad((slope * WEIGHTS).sum(), x)]
    graph = simplified(*roots)
    written, planned = reference(roots), reference(graph.roots)
    noisy = [reference(roots, noise=np.random.default_rng(seed)) for seed in range(3)]
    for order, wanted in enumerate(exact(roots, 4000)):
        right = wanted.astype(float)
        with np.errstate(all="ignore"):
            spread = np.max([abs(each[order] - right) for each in (written, *(noisy))], axis=0)
            known = np.isfinite(written[order]) & np.isfinite(right) & np.isfinite(spread)
            error = abs(planned[order] - right)
        allowed = 100 * spread + 1e-11 * abs(right) + 1e-290
        worse = known & ~(error <= allowed)
        assert not worse.any(), (order, right, written[order], planned[order])
