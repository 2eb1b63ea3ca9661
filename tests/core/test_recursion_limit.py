"""Functions inside functions: as deep as Python nests calls, and told when that is not deep enough."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

import explorer as ex
from explorer.plan.passes import Inline


def nested(depth: int) -> Callable[[ex.Expr], ex.Expr]:
    """The exponential inside so many functions."""

    def around(inner: Callable[[ex.Expr], ex.Expr]) -> Callable[[ex.Expr], ex.Expr]:
        return ex.function(lambda x: inner(x))

    function: Callable[[ex.Expr], ex.Expr] = ex.function(lambda x: ex.exp(x))
    for _ in range(depth):
        function = around(function)
    return function


def test_functions_nested_too_deep_are_told() -> None:
    """Functions nested deeper than a stack has room for end in one clear error, and recording goes on afterwards."""
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
    """Recorded, evaluated by both executors, differentiated, recorded to data, with calls inlined or kept closed."""
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


def test_a_thread_with_a_small_stack_nests_less_deep() -> None:
    """Python's limit is raised only where the stack has room for what it lets through."""
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


def test_a_recursion_of_a_body_deep_inside_is_found() -> None:
    """A body far down that calls itself without end meets Python's limit, not the end of the stack."""

    def endless(x: ex.Expr) -> ex.Expr:
        return endless(x)

    function: Callable[[ex.Expr], ex.Expr] = ex.function(endless)
    for _ in range(500):
        function = ex.function(lambda x, inner=function: inner(x))
    with pytest.raises(ex.DeclarationError, match="nested"):
        function(ex.tensor(1.0))


def test_a_body_that_recurses_by_itself_is_not_taken_for_nesting() -> None:
    def endless(x: ex.Expr) -> ex.Expr:
        return endless(x)

    with pytest.raises(RecursionError):
        ex.function(endless)(ex.tensor(1.0))
