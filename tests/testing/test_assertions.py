"""Assertions about plans: each passes and fails, and a failure lists the declined decisions."""

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
    """Return a plan that merges two products, which two operations read, and fuses the rest."""
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
def test_assert_fused_accepts_expressions_names_and_scopes(
    program: tuple[ex.EvalPlan, ex.Expr, ex.Expr, ex.Expr],
) -> None:
    """`ex.testing.assert_fused` passes if one kernel computes all operations, and otherwise lists what was declined."""
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
def test_assert_fused_of_a_single_operation_raises_an_error(
    program: tuple[ex.EvalPlan, ex.Expr, ex.Expr, ex.Expr],
) -> None:
    """A single operation is always in one kernel, so that the assertion would be meaningless."""
    plan, _, _, hidden = program
    for alone in (hidden, "tanh", "block / tanh"):
        with pytest.raises(OperandError, match="at least two"):
            testing.assert_fused(plan, alone)


@pytest.mark.spec("V-22")
def test_a_failure_mentions_a_name_shared_by_several_operations() -> None:
    """The user may mean one of them, which is fused."""
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
def test_declined_decisions_of_the_subjects_are_sorted_by_cost() -> None:
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
def test_an_omitted_stage_is_the_reason(program: tuple[ex.EvalPlan, ex.Expr, ex.Expr, ex.Expr]) -> None:
    hidden = program[3]
    text = message(testing.assert_fused, planned(hidden, without="fuse"), "block")
    assert "no stage of this plan decides which operations one kernel computes" in text


@pytest.mark.spec("V-22")
def test_pruned_nodes_are_reported_as_computed_by_no_kernel() -> None:
    plan = planned(ex.log(ex.exp(array(3))) + 1)
    assert "is not computed by any kernel" in message(testing.assert_fused, plan, "exp", "add")


@pytest.mark.spec("V-22")
def test_assert_merged_accepts_expressions_names_and_scopes(
    program: tuple[ex.EvalPlan, ex.Expr, ex.Expr, ex.Expr],
) -> None:
    """`ex.testing.assert_merged` passes if equal expressions are computed once, comparing scopes node by node."""
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
    assert "no stage of this plan decides which nodes are merged" in message(
        testing.assert_merged, apart, "tower0", "tower1"
    )
    with pytest.raises(OperandError, match="same number of operations"):
        testing.assert_merged(both, "tower0", towers[1])


@pytest.mark.spec("V-22")
def test_assert_batched_accepts_operations_and_calls() -> None:
    """`ex.testing.assert_batched` passes if all operations are rows of one batch."""
    w = array(8, 8)
    layer = ex.function(lambda x, w: ex.tanh(x @ w))
    rows = [layer(ex.tensor(np.full(8, number, np.float32)), w) for number in range(24)]
    plan = planned(*rows)
    testing.assert_batched(plan, *rows)
    testing.assert_batched(plan, rows[0], rows[23])
    alone = planned(*rows, without="batch")
    text = message(testing.assert_batched, alone, *rows[:2])
    assert "no stage of this plan decides which operations form a batch" in text
    assert "none of them is in a batch" in text
    two = planned(ex.exp(array(3)), ex.exp(array(5)))
    assert "must be rows of one batch, and are not" in message(testing.assert_batched, two, "exp")


@pytest.mark.spec("V-22")
def test_assert_peak_accepts_bytes_or_a_string(program: tuple[ex.EvalPlan, ex.Expr, ex.Expr, ex.Expr]) -> None:
    """`ex.testing.assert_peak` fails with the kernels that need most memory, and the decisions about memory."""
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
def test_errors_of_invalid_arguments_contain_value_rule_and_fix(
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
def test_an_operator_of_a_file_has_the_name_in_the_file() -> None:
    plan = ex.open("assets/digits.pnnx.param").preview_plan()
    testing.assert_fused(plan, "convbn2d_0", "relu1")
    testing.assert_fused(plan, "residual / convbn2d_1", "residual / relu1")
    assert "conv2d" in message(testing.assert_fused, plan, "conv2", "fc1")
