"""Random positive values to raise to powers, for property tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

import explorer as ex

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
    """Draw a positive value to raise to powers."""
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
