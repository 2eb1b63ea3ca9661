"""Joined products: one product instead of several, with the same values, and reasons for separate ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL
from explorer.plan.options import Options
from explorer.plan.planner import Plan, plan
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program

RANDOM = np.random.default_rng(0)


def parameter(*shape: int, dtype: str = "float32") -> Any:
    return Parameter(ex.TensorType(shape, np.dtype(dtype)), "x")()


def weights(*shape: int, dtype: str = "float32") -> Any:
    return ex.tensor(RANDOM.standard_normal(shape).astype(dtype))


def codes(planned: Plan) -> list[tuple[bool, str]]:
    return [(choice.applied, choice.code) for choice in planned.graph.decisions if choice.rule == "JoinProducts"]


def products(planned: Plan) -> int:
    """Return the number of products computed in each run."""
    kernels = [kernel for kernel in planned.schedule.kernels if not kernel.constant]
    return sum(node.operation.name == "matmul" for kernel in kernels for node in kernel.nodes)


def values(planned: Plan, x: Any, array: np.ndarray) -> list[np.ndarray]:
    program = Program(planned)
    program.bind({x: array})
    run_simple(program)
    return program.take()


def attention(x: Any, heads: int = 2) -> Any:
    """Return attention over rows (n, rows, features), with a norm's scale and shift before its products."""
    n, rows, size = x.shape
    x = ex.layer_norm(x, weights(size), weights(size))

    def part() -> Any:
        y = x @ weights(size, size) + weights(size)
        return ex.transpose(ex.reshape(y, (n, rows, heads, size // heads)), (0, 2, 1, 3))

    q, k, v = part(), part(), part()
    return ex.softmax(q @ ex.transpose(k, (0, 1, 3, 2)), axis=-1) @ v


def test_the_products_of_attention_are_joined() -> None:
    """Queries, keys and values become one product with their biases fused; the norm's scale moves into the weights."""
    x = parameter(2, 5, 8)
    y = attention(x)
    joined, apart = plan([y], Options(numerics="fast")), plan([y], Options(("join",)))
    assert codes(joined) == [(True, "joined")]
    assert (products(joined), products(apart)) == (3, 5)
    moved = [choice.code for choice in joined.graph.decisions if choice.rule == "NormIntoWeights" and choice.applied]
    assert moved == ["norm_into_weights"]
    array = RANDOM.standard_normal((2, 5, 8)).astype(np.float32)
    for value, expected in zip(values(joined, x, array), values(apart, x, array), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda x: [(x @ weights(6, 3)).T @ (x @ weights(6, 4))], [(True, "joined")]),
        (lambda x: [(x @ weights(6, 3) + weights(3)).T @ (x @ weights(6, 4))], [(False, "read_alone")]),
        (lambda x: [ex.relu(x @ weights(6, 3)) @ (x @ weights(6, 5))[:3]], [(False, "read_alone")]),
        (lambda x: [x @ weights(6, 3), (x @ weights(6, 4)).T], []),
        (lambda x: [(x @ weights(6, 3)).T @ (x @ x.T)], []),
        (lambda x: [(weights(4, 5) @ x).T, (weights(3, 5) @ x).T], []),
        (lambda x: [(x @ weights(6, 3)).T, (x @ weights(6)).sum()], []),
        (lambda x: [(x @ weights(6, 3)).T, (x @ weights(6, 3, dtype="float64")).T], []),
        (lambda x: [(x @ weights(6, 9000)).T, (x @ weights(6, 8000)).T], [(False, "large")]),
    ],
)
def test_joined_and_separate_products(build: Callable[[Any], list[Any]], code: list[tuple[bool, str]]) -> None:
    """Small products of one value by constant matrices are joined; values are the same either way."""
    x = parameter(5, 6)
    roots = build(x)
    planned = plan(roots)
    assert codes(planned) == code
    array = RANDOM.standard_normal((5, 6)).astype(np.float32)
    for value, expected in zip(
        values(planned, x, array), values(plan(roots, Options(("join",))), x, array), strict=True
    ):
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


def test_weights_given_at_the_run_are_not_joined() -> None:
    """Joining would copy them in each run."""
    x, first, second = parameter(5, 6), parameter(6, 3), parameter(6, 4)
    assert codes(plan([(x @ first).T @ (x @ second)])) == []


@pytest.mark.spec("P-2", "P-11")
def test_prices_come_from_the_cost_model_of_the_plan() -> None:
    """If starting a kernel is almost free, the same products count as large."""
    x = parameter(4, 6)
    roots = [ex.transpose(x @ weights(6, 5)) @ (x @ weights(6, 7))]
    free = replace(REFERENCE_COST_MODEL, call=1e-9)
    assert codes(plan(roots)) == [(True, "joined")]
    assert codes(plan(roots, Options(cost_model=free))) == [(False, "large")]
