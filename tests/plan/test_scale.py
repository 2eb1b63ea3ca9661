"""Graphs a hundred thousand operations deep or wide: no recursion, no quadratic step."""

from __future__ import annotations

import json

import numpy as np
import pytest

import explorer as ex
from explorer.plan import Options, plan
from explorer.record import loads, to_json
from tests.support.execution import run

DEEP = 100_000
SHORTER = 20_000
"""still twenty times Python's recursion limit"""
SHORT = 5_000
"""five times the recursion limit"""


@pytest.mark.spec("P-13", headline=True)
@pytest.mark.parametrize(
    ("depth", "without"),
    [
        (SHORTER, ()),
        (SHORT, ("fuse",)),
        (SHORT, ("simplify", "dedup", "prune", "fuse")),
        pytest.param(DEEP, (), marks=pytest.mark.soak),
        pytest.param(DEEP, ("fuse",), marks=pytest.mark.soak),
        pytest.param(DEEP, ("simplify", "dedup", "prune", "fuse"), marks=pytest.mark.soak),
    ],
)
def test_a_long_chain_is_recorded_planned_evaluated_and_written(depth: int, without: tuple[str, ...]) -> None:
    """Record, plan, evaluate and write chains of any length without recursion: 20,000, or 100,000 with -m soak."""
    x = ex.tensor(np.linspace(0.1, 0.9, 3))
    y, expected = x, x.array
    for _ in range(depth // 2):
        y = ex.sin(y) + x
        expected = np.sin(expected) + x.array
    evaluation = ex.EvalPlan(without=without)
    handle = evaluation.register(y)
    evaluation.eval()
    np.testing.assert_allclose(handle.data(), expected, rtol=1e-12)
    assert len(evaluation.recording.nodes) == depth + 1
    read = loads(json.dumps(to_json(evaluation.recording)))
    assert read.fingerprint == evaluation.recording.fingerprint
    assert len(read.nodes) == depth + 1


@pytest.mark.spec("P-13")
@pytest.mark.parametrize("depth", [SHORT, pytest.param(DEEP, marks=pytest.mark.soak)])
def test_a_long_chain_is_differentiated(depth: int) -> None:
    x = ex.tensor(np.array([0.3, 0.7]))
    y = x
    for _ in range(depth):
        y = ex.sin(y)
    value, slope = x.array, np.ones(2)
    for _ in range(depth):
        value, slope = np.sin(value), slope * np.cos(value)
    result, gradient = ex.evaluate((y, ex.grad(y.sum(), x)))
    np.testing.assert_allclose(result, value, rtol=1e-9)
    np.testing.assert_allclose(gradient, slope, rtol=1e-9)


@pytest.mark.spec("P-13", "P-4")
@pytest.mark.parametrize(
    ("count", "without"),
    [
        (SHORTER, ()),
        (SHORT, ("batch",)),
        (SHORT, ("simplify",)),
        pytest.param(SHORTER, ("batch",), marks=pytest.mark.soak),
        pytest.param(SHORTER, ("simplify",), marks=pytest.mark.soak),
        pytest.param(DEEP, (), marks=pytest.mark.soak),
    ],
)
def test_a_deep_sum_of_calls(count: int, without: tuple[str, ...]) -> None:
    wave = ex.function(lambda x: ex.sin(x) * 0.5)
    numbers = np.random.default_rng(0).normal(size=count)
    total = wave(ex.tensor(numbers[0]))
    for number in numbers[1:]:
        total = total + wave(ex.tensor(number))
    np.testing.assert_allclose(ex.evaluate(total, without=without), (np.sin(numbers) * 0.5).sum(), rtol=1e-10)


@pytest.mark.spec("P-13")
def test_functions_can_be_nested_deeply() -> None:
    x = ex.tensor(np.array([0.5]))
    body = ex.function(lambda v: ex.tanh(v))
    for _ in range(60):
        body = ex.function(lambda v, inner=body: inner(v) + 0.1)
    result = ex.evaluate(body(x))
    np.testing.assert_allclose(result, np.tanh(0.5) + 6.0, rtol=1e-12)


@pytest.mark.spec("P-13")
@pytest.mark.parametrize("depth", [SHORT, pytest.param(SHORTER, marks=pytest.mark.soak)])
def test_a_chain_that_repeatedly_adds_the_last_member_is_planned(depth: int) -> None:
    whole = ex.tensor(np.arange(6.0).reshape(3, 2))
    from explorer.ops.manipulation.slicing import Index0

    last = Index0(2)(whole)
    total = last
    for _ in range(depth):
        total = total + last
    planned = plan([total], Options(without=("dedup",)))
    np.testing.assert_allclose(run(planned)[0], whole.array[2] * (depth + 1))
