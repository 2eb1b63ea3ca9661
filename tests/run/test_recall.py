"""What was evaluated before is not evaluated again while somebody holds the result."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import explorer as ex


class Counted(ex.Elementwise):
    """x + 1, counted."""

    weight, total = 1, True
    examples = (ex.Example(ex.real(2)),)
    runs = 0

    def kernel(self, out: Any, x: Any) -> Any:
        type(self).runs += 1
        return np.add(x, 1, out=out)

    def gradient(self, g: Any, y: Any, x: Any) -> Any:
        return (g,)


@pytest.fixture(autouse=True)
def anew() -> None:
    Counted.runs = 0


@pytest.mark.spec("M-E3", "P-2")
def test_a_value_that_is_held_is_taken_by_later_plans() -> None:
    """The default plan, and plans with recall, take what was evaluated before while it is held, and say so."""
    y = Counted()(ex.tensor(np.zeros(3)))
    first = y.eval_register()
    ex.default_plan().eval()
    second = (y * 2.0).eval_register()
    plan = ex.default_plan().eval()
    np.testing.assert_array_equal(first.data(), np.ones(3))
    np.testing.assert_array_equal(second.data(), 2 * np.ones(3))
    assert Counted.runs == 1
    (decision,) = [row for row in plan.recording.decisions if row.code == "recalled"]
    assert (decision.verdict, decision.facts["count"]) == ("applied", 1)
    del first
    gc.collect()
    third = (y * 3.0).eval_register()
    ex.default_plan().eval()
    np.testing.assert_array_equal(third.data(), 3 * np.ones(3))
    assert Counted.runs == 2


@pytest.mark.spec("M-E3")
def test_a_root_that_was_evaluated_is_given_again_without_a_kernel() -> None:
    y = Counted()(ex.tensor(np.zeros(3)))
    plan = ex.EvalPlan(recall=True)
    first = plan.register(y)
    plan.eval()
    second = plan.register(y)
    plan.eval()
    assert Counted.runs == 1
    assert not plan.planned.schedule.kernels
    assert np.array_equal(first.data(), second.data())
    with pytest.raises(ValueError, match="read-only"):
        second.data()[0] = 7


def test_a_plan_without_recall_computes() -> None:
    """Looking at a plan, or timing it, is not disturbed by what was evaluated elsewhere."""
    y = Counted()(ex.tensor(np.zeros(3)))
    held = [ex.evaluate(y), ex.evaluate(y)]
    assert Counted.runs == len(held) == 2
