"""Nested functions: as deep as Python's calls, with a clear error beyond that."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

import explorer as ex
from explorer.plan.passes import Inline


def nested(depth: int) -> Callable[[ex.Expr], ex.Expr]:
    """Return the exponential inside the given number of functions."""

    def around(inner: Callable[[ex.Expr], ex.Expr]) -> Callable[[ex.Expr], ex.Expr]:
        return ex.function(lambda x: inner(x))

    function: Callable[[ex.Expr], ex.Expr] = ex.function(lambda x: ex.exp(x))
    for _ in range(depth):
        function = around(function)
    return function


def test_functions_nested_too_deep_raise_an_error() -> None:
    """One clear error is raised instead of a stack overflow, and recording still works afterwards."""
    x, limit = ex.tensor(np.ones(3)), sys.getrecursionlimit()
    with pytest.raises(
        ex.DeclarationError, match=r"functions that are nested 2,500 deep\n  rule: .* at most 2,500 deep"
    ):
        nested(2_600)(x)
    assert sys.getrecursionlimit() == limit
    assert ex.evaluate(nested(50)(x)) == pytest.approx(np.e)


@pytest.mark.soak
@pytest.mark.spec("P-13", "P-5")
def test_functions_nest_two_thousand_deep() -> None:
    """They are evaluated by both executors, differentiated, and recorded as data, with calls inlined or not."""
    x, limit = ex.tensor(np.ones(3)), sys.getrecursionlimit()
    f = nested(2_000)
    y = f(x)
    (gradient,) = ex.grad(y.sum(), [x])
    assert ex.evaluate([y, gradient])[1] == pytest.approx(np.e)
    assert ex.evaluate(y, executor="dag") == pytest.approx(np.e)
    assert ex.evaluate(y, inline=Inline(0)) == pytest.approx(np.e)
    assert ex.evaluate([f(ex.tensor(np.full(3, float(number)))) for number in range(3)])[2] == pytest.approx(np.e**2)
    assert len(ex.default_plan().recording.bodies) > 2_000
    assert sys.getrecursionlimit() == limit


def test_a_thread_with_a_small_stack_allows_less_nesting() -> None:
    """Python's recursion limit is raised only as far as the stack permits."""
    texts: list[str] = []

    def work() -> None:
        try:
            nested(2_000)(ex.tensor(np.ones(3)))
        except ex.DeclarationError as error:
            texts.append(str(error))

    before = threading.stack_size(1 << 20)
    try:
        thread = threading.Thread(target=work)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    (error,) = texts
    assert "threading.stack_size" in error


def test_infinite_recursion_in_a_nested_body_raises_recursion_error() -> None:
    """A deeply nested body that calls itself endlessly reaches Python's limit before the stack ends."""

    def endless(x: ex.Expr) -> ex.Expr:
        return endless(x)

    function: Callable[[ex.Expr], ex.Expr] = ex.function(endless)
    for _ in range(500):
        function = ex.function(lambda x, inner=function: inner(x))
    with pytest.raises(ex.DeclarationError, match="nested"):
        function(ex.tensor(1.0))


def test_infinite_recursion_is_not_reported_as_nesting() -> None:
    def endless(x: ex.Expr) -> ex.Expr:
        return endless(x)

    with pytest.raises(RecursionError):
        ex.function(endless)(ex.tensor(1.0))
