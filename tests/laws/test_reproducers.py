"""Every decision has a reproducer, a self-contained cell that needs only the package."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer as ex
from explorer.plan.passes import Inline
from tests.golden.programs import PROGRAMS
from tests.support.programs import prepared, programs
from tests.support.refusals import refused


def check(plan: ex.EvalPlan) -> None:
    done = set()
    for decision in plan.recording.decisions:
        if (decision.rule, decision.code) not in done:
            done.add((decision.rule, decision.code))
            source = plan.reproducer(decision)
            assert source.count("import") == 2
            names: dict[str, Any] = {}
            exec(source, names)
            assert (decision.rule, decision.code) in names["taken"]


@pytest.mark.spec("P-19", headline=True)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_decision_of_golden_programs_has_a_reproducer(name: str) -> None:
    """Write a self-contained cell for any decision: a small graph, seeded leaves, a plan and an assertion."""
    build, options = PROGRAMS[name]
    check(prepared(*build(), **options))


@pytest.mark.spec("P-19")
@settings(max_examples=30)
@given(programs(12), st.booleans())
def test_every_decision_of_random_programs_has_a_reproducer(roots: list[ex.Expr], closed: bool) -> None:
    check(prepared(*roots, inline=Inline(6 if closed else 500_000)))


@pytest.mark.spec("P-19")
def test_a_reproducer_is_minimal_and_runs_in_a_new_process() -> None:
    """It contains only what the decision needs, with the operand types of the original program."""
    x = ex.tensor(np.ones((2, 3), np.float32), name="my input")
    y = x
    for _ in range(30):
        y = ex.sin(y) @ ex.tensor(np.eye(3, dtype=np.float32))
    plan = prepared(ex.log(ex.exp(y)), y.sum())
    (decision,) = [d for d in plan.recording.decisions if d.code == "log_exp"]
    source = plan.reproducer(decision)
    assert "ex.sin" not in source
    assert "ex.matmul" not in source
    assert source.count("ex.tensor(") == 1
    assert "random.normal(size=(2, 3)).astype('float32')" in source
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    wrong = source.replace("'log_exp'", "'log_log'")
    failed = subprocess.run([sys.executable, "-c", wrong], capture_output=True, text=True, check=False)
    assert "AssertionError" in failed.stderr


@pytest.mark.spec("P-19")
def test_a_reproducer_keeps_options_parameters_and_functions() -> None:
    """Test omitted passes, parameters, functions with several outputs, and hostile names."""
    halves = ex.function(lambda v: (v * 0.5, ex.tanh(v * 0.5)))
    given_later = ex.operation("parameter")(kind=ex.TensorType((4,), np.float32), title='x"); import os #')()
    weight = ex.tensor(np.ones(4, np.float32))
    first, second = halves(given_later * ex.exp(weight))
    plan = prepared(first + second, without=["simplify"], inline=Inline(2))
    texts = {decision.code: plan.reproducer(decision) for decision in plan.recording.decisions}
    assert {"too_large", "prepared_once"} <= set(texts)
    assert "Inline(limit=2)" in texts["too_large"]
    assert "without=('simplify',)" in texts["too_large"]
    assert "@ex.function\ndef " in texts["too_large"]
    assert "title='x\"); import os #'" in texts["prepared_once"]


@pytest.mark.spec("P-19")
def test_a_reproducer_names_values_after_operations_and_ends_with_a_view() -> None:
    """The lines read like a user's program, and the cell shows the plan."""
    loss = ex.tensor(np.ones((2, 3), np.float32), name="loss")
    shared = ex.tanh(loss)
    plan = prepared(ex.exp(shared), shared.sum(axis=0), shared * loss)
    declined = next(each for each in plan.recording.declined if each.code == "other_consumers")
    lines = plan.reproducer(declined).splitlines()
    assert lines[-1] == "plan.explore()"
    assert "tanh = ex.tanh(loss2)" in lines  # a cell that differentiates has its own loss
    assert "exp = ex.exp(tanh)" in lines
    assert any(line.startswith("sum_ = ") for line in lines)  # Python's built-in sum stays


@pytest.mark.spec("P-15", "P-19")
def test_a_reproducer_keeps_one_name_for_a_function_traced_for_several_types() -> None:
    """Decisions that depend on equal function names, such as those on grouping calls, are reproduced."""
    half = ex.function(lambda v: ex.tanh(v * 0.5))
    plan = prepared(*[half(ex.tensor(np.ones(shape))) for shape in (2, 3, 4)])
    (decision,) = [decision for decision in plan.recording.decisions if decision.code == "other_body"]
    source = plan.reproducer(decision)
    assert source.count("@ex.function") == 3
    assert source.count(".name = ") == 2


@pytest.mark.spec("P-19")
def test_a_reproducer_has_no_variable_that_its_functions_read() -> None:
    """A variable with an operation's name would cause another trace, so that calls would differ."""
    both = ex.function(lambda v: (v * 0.5, ex.tanh(v)))
    first = both(ex.tensor(np.ones(3)))[0]
    plan = prepared(both(first * ex.tensor(np.ones(3), name="tanh"))[1])
    (decision,) = [decision for decision in plan.recording.decisions if decision.code == "depth"]
    assert "multiply2 = ex.multiply(" in plan.reproducer(decision)


@pytest.mark.spec("P-19")
def test_an_unreproducible_decision_raises_an_error_with_the_reason() -> None:
    """Test a decision of another plan, and an operation whose attribute is a function."""

    class Applying(ex.Elementwise):
        """f(x) for a function f."""

        f: object
        nondifferentiable = "a test"
        examples = (ex.Example(ex.real(3), f=np.sin),)

        def kernel(self, out: Any, x: Any) -> Any:
            return self.f(x, out=out)  # type: ignore[operator]

    plan = prepared(ex.exp(Applying(np.sin)(ex.tensor(np.ones(3)))))
    other = prepared(ex.exp(ex.sin(ex.tensor(np.ones(3)))))
    with refused(ex.OperandError, "decisions"):
        plan.reproducer(other.recording.decisions[0])
    (chain,) = [decision for decision in plan.recording.decisions if decision.code == "chain"]
    with pytest.raises(ex.StateError, match=r"no part of the graph shows ElementwiseChain \[chain\] again") as caught:
        plan.reproducer(chain)
    assert "select the function" in str(caught.value.__cause__)
