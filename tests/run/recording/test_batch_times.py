"""Measured times of batches, shown next to the estimates."""

import json

import pytest

import explorer as ex
from explorer.record import from_json, to_json
from explorer.record.compare.comparison import compare
from tests.support.samples import ROWS, weights


def samples(functions):
    w, b = weights()

    def layer(x, w, b):
        return ex.tanh(x @ w + b)

    layer = ex.function(layer) if functions else layer
    return [layer(ex.tensor(row), w, b) for row in ROWS]


def plan_of(roots, **options):
    plan = ex.EvalPlan(**options)
    for root in roots:
        plan.register(root)
    return plan


def batched(recording):
    return [decision for decision in recording.decisions if decision.code == "batched"]


@pytest.mark.spec("P-4", "P-17")
@pytest.mark.parametrize("executor", ["simple", "dag"])
def test_the_decision_of_a_batch_has_its_measured_time(executor):
    """After the run it has the measured time of its kernels next to both estimates."""
    plan = plan_of(samples(True), executor=executor).prepare()
    (before,) = batched(plan.recording)
    assert set(before.facts) == {"name", "count", "separate_us", "together_us", "shapes_before", "shapes_after"}
    (after,) = batched(plan.eval().recording)
    run = plan.recording.run
    assert {name: after.facts[name] for name in before.facts} == before.facts
    assert after.facts["kernels"] == len(run.steps) == 32
    assert after.facts["measured_us"] == pytest.approx(sum(step.micros for step in run.steps), abs=0.01)
    assert plan.recording.reason(after) == plan.recording.reason(before)
    assert from_json(json.loads(json.dumps(to_json(plan.recording)))).decisions == plan.recording.decisions


@pytest.mark.spec("P-4")
def test_batches_that_share_a_kernel_name_each_other():
    """The kernel's time cannot be divided."""
    plan = plan_of(samples(False)).eval()
    recording = plan.recording
    matmul, add, tanh = batched(recording)
    assert [[recording.label(node["node"]) for node in one.facts["computed_with"]] for one in (matmul, add, tanh)] == [
        ["add", "tanh"],
        ["matmul", "tanh"],
        ["matmul", "add"],
    ]
    fused = next(number for number, kernel in enumerate(recording.schedule.kernels) if len(kernel.nodes) == 3)
    (step,) = [step for step in recording.run.steps if step.kernel == fused]
    assert add.facts["measured_us"] == pytest.approx(step.micros, abs=0.01)


@pytest.mark.spec("P-4", "P-17")
def test_the_explanation_distinguishes_measured_from_estimated():
    """The batch's time was measured, and the time of separate members was not."""
    roots = samples(True)
    plan = plan_of(roots)
    assert "what batching took" not in plan.prepare().explain()
    assert "measured" not in plan.explain(roots[3])
    plan.eval()
    text = plan.explain().partition("what batching took: ")[2].splitlines()
    assert text[0].startswith("computing them one by one was not measured: ")
    assert len(text) == 2
    assert "layer ×30: estimated " in text[1]
    assert ", one by one " in text[1]
    lines = [line.strip() for line in plan.explain(roots[3]).splitlines()]
    assert sum(line.startswith(("separate, estimated: ", "together, estimated: ", "measured: ")) for line in lines) == 3
    assert any(line.startswith("computing them one by one was not measured") for line in lines)


@pytest.mark.spec("P-4", "P-9")
def test_two_plans_measure_both_sides_of_an_estimate():
    """A plan without batching measures the separate members, and is compared with the plan with batching."""
    roots = samples(True)
    plans = [plan_of(roots).eval(), plan_of(roots, without=["batch"]).eval()]
    before, after = compare(*[plan.recording for plan in plans]).counts["measured_us"]
    assert (before, after) == tuple(plan.recording.run.micros for plan in plans)
    assert "measured time" in plans[0].compare(plans[1]).text(measured=True)


@pytest.mark.spec("P-4", "P-16")
def test_a_value_between_batches_is_explained_as_a_row():
    """A value read only by the next batch is a row of the batch's result, and not removed."""
    w, b = weights()
    sums = [ex.tensor(row) @ w + b for row in ROWS]
    plan = plan_of([ex.tanh(each) for each in sums]).prepare()
    assert "in the final graph it is a row of add · 30×16 float32" in plan.explain(sums[4])


def test_without_a_run_nothing_is_measured():
    plan = plan_of(samples(True), record="off").eval()
    assert "measured_us" not in batched(plan.recording)[0].facts
