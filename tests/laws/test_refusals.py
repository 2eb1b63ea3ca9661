"""Every operation not fused, merged or grouped has a decision with a coded reason and an estimated cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer as ex
from explorer.core.ir.function import Call, Item
from explorer.plan.passes import Inline
from tests.golden.programs import PROGRAMS
from tests.support.programs import prepared, programs


def check(plan: ex.EvalPlan) -> None:
    graph = plan.planned.graph
    reasons: dict[str, set[int]] = {}
    declined: set[int] = set()
    """what the fusion pass declined"""
    for choice in graph.decisions:
        stage = graph.stages[choice.stage].name.removesuffix(" again")
        subjects = {node.uid for node in choice.subjects}
        reasons.setdefault(stage, set()).update(subjects)
        if stage == "fuse" and not choice.applied:
            declined |= subjects
    kernel_of = {node.uid: kernel for kernel in plan.planned.schedule.kernels for node in kernel.nodes}
    values: set[Any] = set()
    for node in graph.live:
        operation, operands = node.operation, graph.inputs[node.uid]
        if operands:
            key = (operation, *[operand.uid for operand in operands])
            assert key not in values, f"{node!r} is computed twice, and nothing is said of it"
            values.add(key)
            if operation.commutative and operation.idempotent and operands[0] is not operands[1]:
                turned = (operation, operands[1].uid, operands[0].uid)
                assert turned not in values or node.uid in reasons.get("dedup", ())
        if operation.elementwise and operands:
            assert node.uid in reasons["fuse"], f"{node!r} is alone in its kernel, and nothing is said of it"
        if (operation.elementwise or operation.reduced_axes is not None) and operands:
            for operand in operands:
                apart = operand.uid in kernel_of and kernel_of[operand.uid] is not kernel_of[node.uid]
                if apart and operand.operation.elementwise:
                    assert node.uid in declined, f"{operand!r} is written for {node!r}, and nothing is said of it"
    for decision in plan.recording.decisions:
        assert decision.code
        assert plan.recording.reason(decision)
        if decision.verdict == "declined":
            assert decision.subjects
            assert decision.facts["estimated_cost_us"] >= 0
    ranked = [decision.facts["estimated_cost_us"] for decision in plan.recording.declined]
    assert ranked == sorted(ranked, reverse=True)


def check_calls(plan: ex.EvalPlan) -> None:
    """Check that each call in a plan with other calls of the same name is a subject of a grouping decision."""
    graph = plan.planned.graph
    batching = next((n for n, c in enumerate(graph.stages) if c.name == "batch"), None)
    if batching is None:
        return
    before = graph.stages[batching - 1].live
    uids = {node.uid for decision in graph.decisions if decision.stage == batching for node in decision.subjects}
    calls = [node for node in before if isinstance(node.operation, Call)]
    names = [call.operation.label for call in calls]
    for call, name in zip(calls, names, strict=True):
        if names.count(name) > 1:
            reads = {node.uid for node in before if isinstance(node.operation, Item) and node.operands[0] is call}
            assert call.uid in uids or reads & uids, f"{call!r} is not grouped, and nothing is said of it"


@pytest.mark.spec("P-15", headline=True)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_declined_decision_in_golden_programs_has_a_reason(name: str) -> None:
    """Give a coded reason for every operation not fused, duplicate not merged and call not batched."""
    build, options = PROGRAMS[name]
    plan = prepared(*build(), **options)
    check(plan)
    check_calls(plan)


@pytest.mark.spec("P-15")
@settings(max_examples=80)
@given(programs(), st.booleans())
def test_nothing_in_random_programs_is_refused_without_a_reason(roots: list[ex.Expr], closed: bool) -> None:
    plan = prepared(*roots, inline=Inline(6 if closed else 500_000))
    check(plan)
    check_calls(plan)


def codes(plan: ex.EvalPlan, stage: str) -> dict[str, Any]:
    stages = plan.recording.stages
    result = plan.recording.declined
    return {decision.code: decision for decision in result if stages[decision.stage].name == stage}


@pytest.mark.spec("P-15", "P-6")
def test_an_unfused_elementwise_operation_names_its_reader_or_states_that_it_has_none() -> None:
    x = ex.tensor(np.ones((3, 4), np.float32))
    plan = prepared(ex.tanh(x), ex.cumsum(ex.sin(x), 0))
    reasons = codes(plan, "fuse")
    assert set(reasons) == {"nothing_to_join", "reader"}
    assert reasons["reader"].facts["reader"] == "cumsum"
    assert reasons["reader"].facts["estimated_cost_us"] > reasons["nothing_to_join"].facts["estimated_cost_us"] == 0


@pytest.mark.spec("P-15", "P-2")
def test_a_maximum_with_swapped_operands_is_no_duplicate() -> None:
    """maximum(a, b) and maximum(b, a) differ for 0.0 and −0.0, so both stay, with one declined decision."""
    a, b = ex.tensor(np.zeros(3)), ex.tensor(np.ones(3))
    plan = prepared(ex.maximum(a, b) - ex.maximum(b, a), a + b - (b + a))
    reasons = codes(plan, "dedup")
    assert set(reasons) == {"order_of_zeros"}
    assert plan.explain().count("order_of_zeros") == 2  # once among the decisions, and once among the costs


@pytest.mark.spec("P-15", "P-4")
def test_similar_calls_that_are_not_grouped_have_reasons() -> None:
    """Test calls in sequence, calls with other operand types, and equal calls."""
    step = ex.function(lambda x, w: ex.tanh(x @ w))
    w, small = ex.tensor(np.eye(4)), ex.tensor(np.eye(4, dtype=np.float32))
    x, y = ex.tensor(np.ones(4)), ex.tensor(np.ones(4, np.float32))
    plan = prepared(step(step(x, w), w), step(y, small))
    reasons = codes(plan, "batch")
    assert {code: len(decision.subjects) for code, decision in reasons.items()} == {"depth": 2, "other_body": 1}
    assert reasons["depth"].facts["depths"] == 2
    same = prepared(step(x, w), step(x, w), without=["dedup"])
    assert set(codes(same, "batch")) == {"same_operands"}


@pytest.mark.spec("P-15")
def test_the_explanation_of_a_plan_ends_with_the_costs_of_declined_decisions() -> None:
    """The most expensive one comes first, whatever its stage."""
    large, small = ex.tensor(np.ones((500, 500))), ex.tensor(np.ones((2, 2)))
    shared, other = large + 0.5, small + 0.5
    plan = prepared(ex.negative(other) @ ex.relu(other), ex.negative(shared) @ ex.relu(shared))
    lines = plan.explain().split("what it costs: ")[1].splitlines()
    assert lines[0] == "4 declined, the costliest first; times are estimated for the reference machine"
    sizes = [decision.facts["estimated_cost_us"] for decision in plan.recording.declined]
    assert sizes[0] > 1000 * sizes[-1] > 0
    assert lines[1].endswith("[other_consumers]")
    assert prepared(large @ large).explain().find("what it costs") < 0
