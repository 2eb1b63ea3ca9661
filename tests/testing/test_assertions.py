"""Assertions about plans, each where it holds and where it fails: a failure names the decisions that were declined."""

from __future__ import annotations

import re

import numpy as np
import pytest

import explorer as ex
from explorer.core.errors import OperandError, UnknownNameError
from explorer.view.model.stage_texts import peak_text

testing = ex.testing


def array(*shape: int) -> ex.Tensor:
    return ex.tensor(np.ones(shape, np.float32))


def planned(*roots: ex.Expr, **options: object) -> ex.EvalPlan:
    plan = ex.EvalPlan(**options)
    for root in roots:
        plan.register(root)
    return plan.prepare()


@pytest.fixture
def program() -> tuple[ex.EvalPlan, ex.Expr, ex.Expr, ex.Expr]:
    """A plan that merges two products, which two operations read, and fuses the rest."""
    x, w, b = array(32, 64), array(64, 48), array(48)
    product, again = x @ w, x @ w
    with ex.scope("block"):
        hidden = ex.tanh(product + b)
    return planned(hidden + 2 * again), product, again, hidden


def message(assertion: object, *arguments: object, **options: object) -> str:
    with pytest.raises(AssertionError) as caught:
        assertion(*arguments, **options)
    return str(caught.value)


@pytest.mark.spec("V-22")
def test_fused_takes_expressions_names_and_scopes(program: tuple[ex.EvalPlan, ex.Expr, ex.Expr, ex.Expr]) -> None:
    """`ex.testing.assert_fused` holds where one kernel computes all operations, else it shows what was declined."""
    plan, product, _, hidden = program
    testing.assert_fused(plan, hidden, "multiply")
    testing.assert_fused(plan, "block", "multiply 2")
    testing.assert_fused(plan, "block / tanh", "block / add")
    testing.assert_fused(plan.recording, "block", "multiply")
    lines = message(testing.assert_fused, plan, product, "block").splitlines()
    assert lines[0] == "`matmul` and `block` must be computed by one kernel, and are not"
    assert re.match(r"fuse ✗ .* · Epilogue: .* \[other_consumers\], estimated to cost \S+ µs$", lines[1])
    assert lines[2] == "instead:"
    assert [line.split(",")[0] for line in lines[3:]] == [
        "  1 product = matmul",
        "  2 add → hidden = tanh → multiply 2 → add",
    ]


@pytest.mark.spec("V-22")
def test_a_single_operation_is_not_asserted_to_be_fused(program: tuple[ex.EvalPlan, ex.Expr, ex.Expr, ex.Expr]) -> None:
    """A single operation is in one kernel in any plan: such an assertion would hold whatever the plan does."""
    plan, _, _, hidden = program
    for alone in (hidden, "tanh", "block / tanh"):
        with pytest.raises(OperandError, match="at least two"):
            testing.assert_fused(plan, alone)


@pytest.mark.spec("V-22")
def test_a_name_that_several_operations_share_is_said_where_it_fails() -> None:
    """A reader may mean one of them, which is fused."""
    hidden = ex.tanh(array(32, 48) * 2 + 1)
    result = hidden * 3 + hidden.sum()
    plan = planned(result)
    lines = message(testing.assert_fused, plan, "add", "tanh").splitlines()
    assert [line.split(",")[0] for line in lines if line.startswith("`add` refers to")] == [
        "`add` refers to 2 operations: add 1"
    ]
    assert lines[-1] == "to select one of them, pass the expression itself, or its own name in the graph"
    testing.assert_fused(plan, "add 1", "tanh")
    assert "refers to" not in message(testing.assert_fused, plan, hidden, result)


@pytest.mark.spec("V-22")
def test_declined_decisions_come_the_costliest_first_and_about_the_subjects_alone() -> None:
    x = array(64, 64)
    small, large = ex.tensor(np.ones(4, np.float32)), ex.exp(x)
    sine = ex.sin(small)
    plan = planned(large * ex.cos(large), large + 1, sine * 2, sine + 3)
    lines = message(testing.assert_fused, plan, "exp", "cos", "add", "sin").splitlines()
    costs = [float(line.rsplit(" ", 2)[1]) for line in lines if "estimated to cost" in line]
    assert len(costs) > 1
    assert costs == sorted(costs, reverse=True)
    about_one = message(testing.assert_fused, plan, large, "add").splitlines()
    assert not [line for line in about_one if "sin" in line.partition("instead:")[0]]


@pytest.mark.spec("V-22")
def test_a_stage_that_is_left_out_is_the_reason(program: tuple[ex.EvalPlan, ex.Expr, ex.Expr, ex.Expr]) -> None:
    hidden = program[3]
    text = message(testing.assert_fused, planned(hidden, without="fuse"), "block")
    assert "this plan has no stage fuse, which EvalPlan(without=…) excludes" in text


@pytest.mark.spec("V-22")
def test_what_prune_removed_is_computed_by_no_kernel() -> None:
    plan = planned(ex.log(ex.exp(array(3))) + 1)
    assert "is not computed by any kernel" in message(testing.assert_fused, plan, "exp", "add")


@pytest.mark.spec("V-22")
def test_merged_compares_expressions_names_and_scopes_one_by_one(
    program: tuple[ex.EvalPlan, ex.Expr, ex.Expr, ex.Expr],
) -> None:
    """`ex.testing.assert_merged` holds where equal expressions are computed once."""
    plan, product, again, hidden = program
    testing.assert_merged(plan, product, again)
    testing.assert_merged(plan, "matmul")
    text = message(testing.assert_merged, plan, product, hidden)
    assert text.startswith("`matmul` and `tanh` must be computed once, as one node, and are not\n")
    assert "are different nodes in the final graph" in text
    text = message(testing.assert_merged, plan, hidden)
    assert text == "`tanh` is recorded only once, so there is no second operation to merge with"
    x = array(8)
    towers = []
    for number in range(2):
        with ex.scope(f"tower{number}"):
            towers.append(ex.exp(ex.sin(x)))
    both = planned(*towers)
    testing.assert_merged(both, "tower0", "tower1")
    apart = planned(*towers, without="dedup")
    assert "this plan has no stage dedup" in message(testing.assert_merged, apart, "tower0", "tower1")
    with pytest.raises(OperandError, match="same number of operations"):
        testing.assert_merged(both, "tower0", towers[1])


@pytest.mark.spec("V-22")
def test_batched_takes_operations_and_calls() -> None:
    """`ex.testing.assert_batched` holds where all operations are rows of one batch."""
    w = array(8, 8)
    layer = ex.function(lambda x, w: ex.tanh(x @ w))
    rows = [layer(ex.tensor(np.full(8, number, np.float32)), w) for number in range(24)]
    plan = planned(*rows)
    testing.assert_batched(plan, *rows)
    testing.assert_batched(plan, rows[0], rows[23])
    alone = planned(*rows, without="batch")
    text = message(testing.assert_batched, alone, *rows[:2])
    assert "this plan has no stage batch" in text
    assert "none of them is in a batch" in text
    two = planned(ex.exp(array(3)), ex.exp(array(5)))
    assert "must be rows of one batch, and are not" in message(testing.assert_batched, two, "exp")


@pytest.mark.spec("V-22")
def test_a_peak_is_a_number_of_bytes_or_a_text(program: tuple[ex.EvalPlan, ex.Expr, ex.Expr, ex.Expr]) -> None:
    """`ex.testing.assert_peak` fails with the kernels that need the most, and the decisions on memory."""
    plan = program[0]
    peak = plan.recording.schedule.peak
    testing.assert_peak(plan, at_most=peak)
    testing.assert_peak(plan, at_most="24KB")
    lines = message(testing.assert_peak, plan, at_most=peak - 1024).splitlines()
    assert lines[0] == f"{peak_text(plan.recording)}: 1 KB more than 23 KB"
    assert lines[1].startswith("24 KB live during kernel 2 add → hidden = tanh")
    assert [line for line in lines if line.startswith("buffers ✓ ")]
    for wrong in ("much", 2.5, None):
        with pytest.raises(OperandError, match="at_most must be a number of bytes"):
            testing.assert_peak(plan, at_most=wrong)


@pytest.mark.spec("V-22")
def test_bad_input_names_what_was_given_the_rule_and_the_fix(
    program: tuple[ex.EvalPlan, ex.Expr, ex.Expr, ex.Expr],
) -> None:
    plan, product, _, hidden = program
    with pytest.raises(UnknownNameError, match="unknown operation, layer or scope of this plan 'tan'"):
        testing.assert_fused(plan, "tan")
    with pytest.raises(OperandError, match="nothing to look at"):
        testing.assert_fused(plan)
    with pytest.raises(OperandError, match="must be names"):
        testing.assert_fused(plan.recording, product)
    with pytest.raises(OperandError, match="must be a plan"):
        testing.assert_fused(hidden, product)
    with pytest.raises(OperandError, match="an expression or a name"):
        testing.assert_fused(plan, 3)
    with pytest.raises(OperandError, match="is not computed"):
        testing.assert_fused(planned(ex.exp(x := array(2))), x)
    with pytest.raises(OperandError, match="in this plan"):
        testing.assert_fused(plan, ex.exp(array(2)))
    unplanned = ex.EvalPlan()
    unplanned.register(hidden)
    with pytest.raises(ex.StateError, match=r"prepare\(\) or eval\(\)"):
        testing.assert_fused(unplanned, hidden)
    with pytest.raises(OperandError, match="without a schedule"):
        testing.assert_peak(ex.Recording(), at_most=1)


@pytest.mark.spec("V-22")
def test_an_operator_of_a_file_is_named_as_in_its_file() -> None:
    plan = ex.open("assets/digits.pnnx.param").preview_plan()
    testing.assert_fused(plan, "convbn2d_0", "relu1")
    testing.assert_fused(plan, "residual / convbn2d_1", "residual / relu1")
    assert "conv2d" in message(testing.assert_fused, plan, "conv2", "fc1")
