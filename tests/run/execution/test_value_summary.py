"""What a run keeps with record="values" and record="off"."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.expr import Expr
from explorer.record import Summary
from explorer.run.execution.value_capture import summarize
from explorer.run.recording.recorder import expressions

BROKEN = np.array([[1.0, np.nan, -np.inf], [4.0, np.inf, -2.0]])


def summaries(*roots: Expr, **options: Any) -> dict[int, Summary]:
    """Return the summaries of a run by uid."""
    plan = ex.EvalPlan(record="values", **options)
    for root in roots:
        plan.register(root)
    plan.eval()
    nodes = expressions(plan.planned)
    assert plan.recording.run is not None
    return {nodes[number].uid: summary for number, summary in plan.recording.run.values.items()}


@pytest.mark.spec("P-17")
def test_every_value_is_summarized_even_fused_ones() -> None:
    x = ex.tensor(np.linspace(-2, 2, 12).reshape(3, 4))
    w = ex.tensor(np.ones((4, 2)))
    product = x @ w
    shifted = product + 0.5
    root = ex.tanh(shifted)
    result = summaries(root)
    values = {
        x: x.array,
        product: x.array @ w.array,
        shifted: x.array @ w.array + 0.5,
        root: np.tanh(x.array @ w.array + 0.5),
    }
    for node, value in values.items():
        summary = result[node.uid]
        assert (summary.shape, summary.dtype, summary.nan, summary.inf) == (value.shape, "float64", 0, 0)
        np.testing.assert_allclose((summary.min, summary.max), (value.min(), value.max()))
        np.testing.assert_allclose((summary.mean, summary.std), (value.mean(), value.std()))
        assert sum(summary.histogram) == value.size


@pytest.mark.spec("P-17")
def test_a_value_overwritten_in_place_is_summarized_before() -> None:
    x = ex.tensor(np.linspace(0.5, 2, 9).reshape(3, 3))
    first = x @ x
    second = ex.tanh(first)
    root = second @ x
    result = summaries(root, without=("fuse",))
    assert result[first.uid].max == (x.array @ x.array).max()
    assert result[second.uid].max == np.tanh(x.array @ x.array).max()


def test_statistics_cover_finite_elements_and_others_are_counted() -> None:
    summary = summarize(BROKEN)
    assert (summary.nan, summary.inf) == (1, 2)
    assert (summary.min, summary.max, summary.mean) == (-2.0, 4.0, 1.0)
    assert sum(summary.histogram) == 3
    assert "nan" in summary.elements
    assert len(summary.thumbnail) == 2


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([True, False, True]), ("bool", 0.0, 1.0)),
        (np.array([[3, -4]], np.int8), ("int8", -4.0, 3.0)),
        (np.array([3 + 4j, 0j]), ("complex128", 0.0, 5.0)),
        (np.zeros((0, 3)), ("float64", None, None)),
        (np.array(2.5, np.float32), ("float32", 2.5, 2.5)),
        (np.full((3, 3), np.nan), ("float64", None, None)),
        (np.array([1e308, -1e308]), ("float64", -1e308, 1e308)),
        (np.array([60000.0, 60000.0], np.float16), ("float16", 60000.0, 60000.0)),
        (np.array([2**63], np.uint64), ("uint64", float(2**63), float(2**63))),
        (np.zeros((2, 0, 4)), ("float64", None, None)),
        (np.broadcast_to(np.float32(1.5), (400, 300)), ("float32", 1.5, 1.5)),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_every_kind_of_value_has_a_summary(value: Any, expected: tuple[str, Any, Any]) -> None:
    summary = summarize(value)
    assert (summary.dtype, summary.min, summary.max) == expected
    assert summary.shape == value.shape
    assert all(0 <= shade <= 255 for row in summary.thumbnail for shade in row)


def test_a_thumbnail_is_small_and_shows_the_last_two_axes() -> None:
    picture = np.zeros((2, 300, 50))
    picture[0, :, 25:] = 1.0
    summary = summarize(picture)
    assert len(summary.thumbnail) <= 24
    assert all(len(row) <= 24 for row in summary.thumbnail)
    assert {row[0] for row in summary.thumbnail} == {0}
    assert {row[-1] for row in summary.thumbnail} == {255}


@pytest.mark.parametrize("record", ["off", "times"])
def test_no_summary_without_values_and_no_times_with_off(record: str) -> None:
    plan = ex.EvalPlan(record=record)
    handle = plan.register(ex.tanh(ex.tensor(BROKEN)))
    plan.eval()
    assert handle.data().shape == (2, 3)
    run = plan.recording.run
    assert (run is None) == (record == "off")
    assert run is None or run.values == {}


def test_values_do_not_depend_on_recording_and_summaries_are_not_timed() -> None:
    x = ex.tensor(np.random.default_rng(0).normal(size=(1500, 1500)))
    y = ex.tanh(x * 2.0) + x
    results = {}
    for record in ("off", "times", "values"):
        plan = ex.EvalPlan(record=record)
        handle = plan.register(y)
        plan.eval()
        results[record] = handle.data()
        if record == "times":
            plain = plan.recording.run.micros  # type: ignore[union-attr]
        if record == "values":
            watched = plan.recording.run  # type: ignore[assignment]
    assert np.array_equal(results["off"], results["times"])
    assert np.array_equal(results["off"], results["values"])
    assert watched.micros == pytest.approx(sum(step.micros for step in watched.steps))  # type: ignore[attr-defined]
    assert watched.micros < 10 * plain + 1e5  # type: ignore[attr-defined]


@pytest.mark.parametrize("values", [[1.0, 1.0 + 2**-52], [0.0, 5e-324], [1e16, 1e16 + 2.0]])
def test_values_that_differ_by_rounding_have_a_histogram(values: list[float]) -> None:
    result = summarize(np.array(values))
    assert (result.histogram[0], result.histogram[-1], sum(result.histogram)) == (1, 1, 2)


@pytest.mark.spec("P-17")
@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_moments_of_very_large_and_very_small_numbers_are_exact(scale: float) -> None:
    # Squares of these overflow, or vanish.
    summary = summarize(np.array([1.0, 3.0]) * scale)
    assert summary.mean == pytest.approx(2 * scale)
    assert summary.std == pytest.approx(scale)
