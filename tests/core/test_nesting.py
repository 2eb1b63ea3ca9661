"""Functions inside functions: as deep as Python nests calls, and told when that is not deep enough."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

import explorer as ex


def nested(depth: int) -> Callable[[ex.Expr], ex.Expr]:
    """The exponential inside so many functions."""

    def around(inner: Callable[[ex.Expr], ex.Expr]) -> Callable[[ex.Expr], ex.Expr]:
        return ex.function(lambda x: inner(x))

    made: Callable[[ex.Expr], ex.Expr] = ex.function(lambda x: ex.exp(x))
    for _ in range(depth):
        made = around(made)
    return made


def test_functions_nested_too_deep_are_told() -> None:
    """Functions nested deeper than Python's stack end in one clear error, and recording goes on afterwards."""
    x = ex.tensor(np.ones(3))
    with pytest.raises(ex.DeclarationError, match=r"inside functions that are nested \d+ deep\n  rule: .* 1,000 calls"):
        nested(1000)(x)
    assert ex.evaluate(nested(50)(x)) == pytest.approx(np.e)


def test_with_more_stack_functions_nest_deeper() -> None:
    limit = sys.getrecursionlimit()
    x = ex.tensor(np.ones(3))
    sys.setrecursionlimit(10_000)
    try:
        y = nested(400)(x)
        assert ex.evaluate([y, *ex.grad(y.sum(), [x])])[1] == pytest.approx(np.e)
    finally:
        sys.setrecursionlimit(limit)


def test_a_body_that_recurses_by_itself_is_not_taken_for_nesting() -> None:
    def endless(x: ex.Expr) -> ex.Expr:
        return endless(x)

    with pytest.raises(RecursionError):
        ex.function(endless)(ex.tensor(1.0))
