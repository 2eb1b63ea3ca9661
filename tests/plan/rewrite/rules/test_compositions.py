"""Random compositions of powers: planning makes neither a value nor a gradient worse than the program as written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer as ex
from tests.plan.rewrite.rules.asking import simplified
from tests.support.compositions import RESULTS, WEIGHTS, Build, positives
from tests.support.exact import exact
from tests.support.interpreter import reference

COMPOSITION = {
    "first": positives(),
    "second": positives(),
    "result": st.sampled_from(RESULTS),
    "row": st.lists(st.sampled_from([-800.0, -40.0, -1.5, 0.0, 0.25, 3.0, 40.0, 800.0]), min_size=3, max_size=3),
}


@pytest.mark.spec("P-1", "P-12")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("examples", [25, pytest.param(300, marks=pytest.mark.soak)])
def test_values_that_are_finite_as_written_stay_as_accurate_in_the_plan(examples: int) -> None:
    settings(max_examples=examples, deadline=None)(given(**COMPOSITION)(is_as_right_once_planned))()


def is_as_right_once_planned(first: Build, second: Build, result: Callable[[Any, Any], Any], row: list[float]) -> None:
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
