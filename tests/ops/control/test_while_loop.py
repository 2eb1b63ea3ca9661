"""Loops with a data-dependent number of iterations."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

import explorer as ex


def halvings(x: ex.Expr) -> Any:
    return ex.while_loop(lambda s: s[0] > 1, lambda s: (s[0] / 2, s[1] + 1), (x, ex.tensor(0)))


@pytest.mark.parametrize(("x", "turns"), [(1.0, 0), (1000.0, 10)])
def test_a_loop_runs_as_long_as_its_condition_holds(x: float, turns: int) -> None:
    last, count = halvings(ex.tensor(x))
    assert ex.evaluate([last, count]) == [x / 2**turns, turns]


def test_outer_values_are_operands() -> None:
    w, limit = ex.tensor([1.0, 2.0], name="w"), ex.tensor(20.0, name="limit")
    y = ex.while_loop(lambda x: x.sum() < limit, lambda x: x + w, ex.tensor([0.0, 0.0]))
    np.testing.assert_array_equal(ex.evaluate(y), [7.0, 14.0])
    assert [node.label for node in y.operands][2:] == ["w", "limit"]


def test_nested_loops() -> None:
    def outer(state: Any) -> Any:
        i, total = state
        _, inner = ex.while_loop(lambda s: s[0] < i, lambda s: (s[0] + 1, s[1] + s[0]), (ex.tensor(0), total))
        return i + 1, inner

    _, total = ex.while_loop(lambda s: s[0] < 5, outer, (ex.tensor(0), ex.tensor(0)))
    assert ex.evaluate(total) == sum(j for i in range(5) for j in range(i))


def test_a_loop_with_an_initially_false_condition_is_its_state_with_a_decision() -> None:
    x = ex.tensor([1.0, 2.0])
    plan = ex.EvalPlan()
    zero = ex.ZeroTensor(())
    y = plan.register(ex.while_loop(lambda x: zero > 1, lambda x: x + 1, x))
    plan.eval()
    np.testing.assert_array_equal(y.data(), [1.0, 2.0])
    (decision,) = [d for d in plan.recording.decisions if d.code == "no_turns"]
    exec(plan.reproducer(decision), {})


def test_a_loop_without_iterations_keeps_its_state_when_memory_is_reused() -> None:
    a = np.random.default_rng(0).normal(size=(3, 3))
    x, zero = ex.tensor(a), ex.tensor(0)
    _, y, _ = ex.while_loop(lambda s: s[0] < s[2], lambda s: (s[0] + 1, ex.tanh(s[1]), s[2]), (zero, x @ x, zero))
    z = ex.sin(x @ x.T) @ x
    value, _ = ex.evaluate([y, (z + y).sum()])
    np.testing.assert_allclose(value, a @ a)


def test_an_endless_loop_can_be_interrupted() -> None:
    endless = ex.while_loop(lambda x: x > 0, lambda x: x + 1, ex.tensor(1.0))
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ex.evaluate(endless)
    timer.join()
    assert ex.evaluate(halvings(ex.tensor(8.0))[1]) == 3


def test_the_error_about_gradients_of_a_loop_suggests_scan() -> None:
    x = ex.tensor(8.0)
    with pytest.raises(ex.OperandError, match=r"while_loop.*\n.*number of iterations"):
        ex.grad(halvings(x)[0], x)


def test_calls_with_loops_are_not_batched_with_a_reason() -> None:
    f = ex.function(lambda x: halvings(x)[0])
    plan = ex.EvalPlan()
    handles = [plan.register(f(ex.tensor(float(x)))) for x in (3, 5, 9, 17)]
    plan.eval()
    assert [float(handle.data()) for handle in handles] == [0.75, 0.625, 0.5625, 0.53125]
    (decision,) = [d for d in plan.recording.decisions if d.code == "not_batchable"]
    assert "while_loop" in str(decision.facts)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ex.while_loop(lambda x: x, lambda x: x, x), "scalar of dtype bool"),
        (lambda x: ex.while_loop(lambda x: True, lambda x: x, x), "scalar of dtype bool"),
        (lambda x: ex.while_loop(lambda x: x > 0, lambda x: (x, x), x), "same containers and keys"),
        (lambda x: ex.while_loop(lambda x: x > 0, lambda x: x.astype("float32"), x), "same shapes and dtypes"),
        (lambda x: ex.while_loop(lambda x: x > 0, 3, x), "body must be a function"),
        (lambda x: ex.while_loop(lambda x: x > 0, lambda x: x, ()), "at least one tensor"),
    ],
)
def test_an_invalid_loop_raises_an_error_when_it_is_written(call: Any, message: str) -> None:
    with pytest.raises(ex.ExplorerError, match=message):
        call(ex.tensor(1.0))
