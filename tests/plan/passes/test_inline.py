"""Inlining: calls are opened if that is cheaper, and otherwise run unopened with the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Call
from explorer.plan import Options, plan
from explorer.plan.passes import Inline
from tests.support.decisions import codes
from tests.support.execution import run
from tests.support.interpreter import reference

x = ex.tensor(np.arange(12.0).reshape(3, 4), name="x")


@ex.function
def pair(a: Any, b: Any) -> Any:
    return ex.tanh(a) + b, ex.exp(a * b)


@ex.function
def outer(a: Any) -> Any:
    first, second = pair(a, a + 1.0)
    return first * second


@pytest.mark.spec("P-5", headline=True)
def test_nested_calls_are_opened_and_stay_boxes_in_the_picture() -> None:
    """Inline calls, including nested ones, if that helps; the view keeps their box."""
    planned = plan([outer(x), outer(x + 1.0)], Options(without=("batch",)))
    opened = [c for c in planned.graph.decisions if c.code == "inlined"]
    assert [c.facts["name"] for c in opened] == ["outer", "pair"]
    assert [len(c.subjects) for c in opened] == [c.facts["count"] for c in opened] == [2, 2]
    assert not any(isinstance(node.operation, Call) for node in planned.graph.live)
    boxes = [group for group in planned.graph.groups if group.kind == "function"]
    assert [box.label for box in boxes] == ["outer", "pair"]
    np.testing.assert_array_equal(run(planned)[0], reference([outer(x)])[0])


@pytest.mark.spec("P-3", "P-5")
def test_an_unread_output_of_a_function_is_not_computed() -> None:
    planned = plan([pair(x, x)[0]])
    assert not any(node.operation.name == "exp" for node in planned.graph.live)
    assert codes(planned, "prune again") == ["unneeded"]


@pytest.mark.spec("P-5")
@pytest.mark.parametrize("limit", [0, 3, 8, 12, 200])
def test_a_call_that_is_too_large_to_open_has_the_same_values_and_gradients(limit: int) -> None:
    hidden = x * 3.0

    @ex.function
    def inside(a: Any) -> Any:
        return ex.tanh(a * hidden), a + hidden

    @ex.function
    def around(a: Any) -> Any:
        scaled = a * 0.5
        captured = ex.function(lambda b: b + scaled)
        first, second = inside(captured(a))
        return first + captured(second), a

    values = around(x)
    roots = [*values, ex.grad(values[0].sum(), x), values[0] + values[1]]
    planned = plan(roots, Options(inline=Inline(limit)))
    assert ("too_large" in [c.code for c in planned.graph.decisions]) == (limit < 200)
    for _ in range(2):
        for result, expected in zip(run(planned), reference(roots), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-14)


@pytest.mark.spec("P-5")
def test_an_unopened_call_that_returns_its_operand_does_not_share_its_memory() -> None:
    same = ex.function(lambda a, b: (a, b + 1.0))
    inner = ex.tanh(x)
    first, second = same(inner, x)
    root = ex.exp(first) + second + ex.sin(ex.exp(second))
    planned = plan([root, first], Options(inline=Inline(0)))
    np.testing.assert_array_equal(run(planned)[0], reference([root])[0])
    np.testing.assert_array_equal(run(planned)[1], np.tanh(x.array))


@pytest.mark.spec("P-2")
@pytest.mark.parametrize("without", [(), ("batch",), ("prune",), ("simplify",)])
@pytest.mark.parametrize("limit", [0, 500_000])
def test_a_call_with_a_gradient_is_not_computed_twice(limit: int, without: tuple[str, ...]) -> None:
    w = ex.tensor(np.random.default_rng(0).normal(size=(4, 4)))
    square = ex.function(lambda a: ex.square(a))
    h, losses = x, []
    for _ in range(3):
        h, other = pair(h @ w, h)
        losses += [h.sum(), other.sum(), square(h).sum()]
    roots = [h, *losses, ex.grad(ex.add_n(*losses), (w, x))[0], ex.grad(losses[0], x)]
    planned = plan(roots, Options(inline=Inline(limit), without=without))
    assert {c.facts["name"] for c in planned.graph.decisions if c.code == "augmented"} == {"pair"}
    if limit == 0 and not without:
        names = [k.result.operation.label for k in planned.schedule.kernels if isinstance(k.result.operation, Call)]
        assert names.count("pair") == 4  # three, and one more for the gradient of only the first loss
    for result, expected in zip(run(planned), reference(roots), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.spec("P-8")
def test_the_memory_of_an_unopened_call_includes_its_body() -> None:
    @ex.function
    def f(a: ex.Expr) -> ex.Expr:
        return (a @ a @ a).sum()

    call = f(ex.tensor(np.ones((64, 64))))
    closed = plan([call], Options(inline=Inline(0))).schedule
    opened = plan([call]).schedule
    assert (opened.peak_lower_bound, opened.peak) == (
        2 * 64 * 64 * 8,
        2 * 64 * 64 * 8 + 8,
    )  # the sum has its own memory
    assert (closed.placements[0].live, closed.kernels[0].cost.scratch) == (opened.peak, opened.arena)
