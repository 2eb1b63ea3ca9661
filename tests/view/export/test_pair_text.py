"""Answers to "why not these two?" as text."""

from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.cli import main

ASSETS = Path(__file__).parents[3] / "assets"


def test_operations_are_named_as_in_the_picture_and_answers_name_variables() -> None:
    """`view.why("exp", "sum")` accepts names of operations; the title contains the variable, if there is one."""
    x = ex.tensor(np.ones((4, 3)), name="x")
    powers = ex.exp(x)
    total = ex.sum(powers)
    plan = ex.EvalPlan()
    plan.register(total)
    plan.register(powers * 2)
    view = plan.prepare().explore()
    assert view.why("exp", "sum").splitlines()[0] == "exp and sum"
    assert view.why("exp") == view.why("powers") == view.why(powers)
    assert view.why(powers, total).splitlines()[0] == "powers = exp and total = sum"
    view.focus("multiply 2")
    assert view.recording.label(view.selected) == "multiply 2"
    with pytest.raises(ValueError, match="operation is called 'exq'; near is 'exp'"):
        view.why("exq", "sum")


def test_two_nodes_without_a_common_decision_have_their_connection_described() -> None:
    """The answer names the first and the last node between the two, or states that they are not connected."""
    first = ex.tensor(np.ones((4, 4)), name="first")
    last = first
    for _ in range(9):
        last = ex.tanh(ex.cumsum(last, 0))
    aside = ex.sort(first)
    plan = ex.EvalPlan(without="fuse")
    plan.register(last)
    plan.register(aside)
    plan.prepare()
    way = "cumsum → tanh → cumsum → tanh → 12 more → cumsum"
    assert f"tanh (no. 9) reads the result of first through {way}." in plan.why(first, last)
    assert plan.why(last, first).splitlines()[-1] == plan.why(first, last).splitlines()[-1]
    assert "Neither reads the result of the other, nor anything computed from it." in plan.why(aside, last)


@pytest.mark.spec("Q-4")
def test_a_question_about_a_replaced_node_names_the_rule_and_the_replacement() -> None:
    """``log`` became ``log_softmax``: both names are answered, first with the decision about the replacement."""
    x = ex.tensor(np.ones((32, 48), np.float32), name="x")
    plan = ex.EvalPlan()
    plan.register(ex.sum(ex.log(ex.softmax(x @ x.T))))
    view = plan.prepare().explore()
    for written, planned in (("matmul", "log"), ("matmul", "log_softmax"), ("log", "sum"), ("log_softmax", "sum")):
        answer = view.why(written, planned)
        assert plan.why(written, planned) == answer
        first, *others = answer.splitlines()[1:]
        assert "LogOfSoftmax: `log` of `softmax` is computed in one step (log_softmax)" in first
        assert not any("LogOfSoftmax" in line for line in others)
        assert "log_softmax" in "".join(others)
    assert view.why("log", "log_softmax").count("LogOfSoftmax") == 1
    assert "replaced by log_softmax (rule LogOfSoftmax, stage simplify)" in view.why("log")
    view.focus("log_softmax")
    assert view.recording.label(view.selected) == "log_softmax"


@pytest.mark.spec("Q-4")
def test_an_answer_about_two_scopes_begins_with_the_edge_between_them() -> None:
    """Decisions that merged or removed nodes of both scopes come after the reason why the edge separates kernels."""
    x, w = ex.tensor(np.ones((8, 8)), name="x"), ex.tensor(np.ones((8, 8)), name="w")
    with ex.scope("one"):
        first = ex.tanh(x @ (w * 2.0)) + x
    with ex.scope("two"):
        second = ex.sum(first @ (w * 2.0), 1, keepdims=True) + first
    plan = ex.EvalPlan()
    plan.register(second)
    title, edge, *others = plan.prepare().explore().why("one", "two").splitlines()
    assert title == "one and two"
    assert edge.startswith("  fuse ✗ two / second = add")
    assert "and one / first = add" in edge
    assert edge.endswith("[other_consumers]")
    assert [line.split()[0] for line in others if line] == ["fuse", "dedup", "dedup"]


@pytest.mark.spec("V-2")
def test_plan_view_and_command_give_the_same_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """The answer for a pair is the decision about it with its reason, or else the final state of each node."""
    x = ex.tensor(np.ones((32, 48), np.float32), name="x")
    rows = ex.softmax(x)
    y = rows * ex.sum(x)
    plan = ex.EvalPlan()
    plan.register(y)
    plan.prepare()
    answer = plan.why(rows, y)
    assert "[producer]" in answer
    assert "no decision is about both" not in answer
    assert plan.why(y, rows).count("[producer]") == 1
    labels = [plan.recording.label(node) for node in range(len(plan.recording.nodes))]
    assert plan.explore().why(labels.index("softmax"), labels.index("multiply")) == answer
    assert "no decision is about both" in plan.why(x, y)
    with pytest.raises(ex.OperandError):
        plan.why(y, ex.tanh(x))
    with pytest.raises(ValueError, match="node 99 is not in this recording"):
        plan.explore().why(0, 99)
    assert main(["why", str(ASSETS / "digits.pnnx.param"), "relu1", "conv2"]) == 0
    assert "relu1 and conv2" in capsys.readouterr().out
