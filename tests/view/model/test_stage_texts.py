"""Results of stages in one line, composed from counts of the recording."""

import re

import numpy as np
import pytest

import explorer as ex
from explorer.record.reasons import bytes_text
from explorer.view.model.stage_texts import stage_result
from tests.support.cells import MODELS
from tests.view import sample


@pytest.mark.spec("V-1")
def test_the_result_of_a_pass_counts_changes_and_declined_decisions():
    """A kernel that grew is counted once, in its final state; saved bytes are the difference between two stages."""
    recording = sample.resnet()
    number = [stage.name for stage in recording.stages].index("fuse")
    stage, before = recording.stages[number], recording.stages[number - 1]
    results = {group.members[-1] for group in recording.groups if group.kind == "kernel"}
    declined = sum(row.verdict == "declined" for row in recording.decisions[stage.first : stage.last])
    saved = bytes_text(before.counts["bytes"] - stage.counts["bytes"])
    text = stage_result(recording, number)
    assert text == f"{len(results)} kernels fused, {declined} declined; {saved} never written."


@pytest.mark.spec("V-1", "V-23")
def test_every_stage_but_the_recorded_one_has_a_result():
    """A pass without decisions changed nothing; order and memory describe the plan's needs, and run its time."""
    recording = sample.mlp()
    results = {stage.name: stage_result(recording, number) for number, stage in enumerate(recording.stages)}
    assert results.pop("recorded") == ""
    assert all(re.fullmatch(r"\S.*\.", text) for text in results.values())
    assert recording.schedule is not None
    assert results["order"].startswith(f"{len(recording.schedule.kernels)} kernels")
    assert bytes_text(recording.schedule.peak) in results["buffers"]
    assert recording.run is not None
    estimate = sum(kernel.estimate for kernel in recording.schedule.kernels)
    assert f"{recording.run.micros / estimate:.3g} times" in results["run"]
    assert "; statistics of values were recorded in a run before it." in results["run"]
    make = sample.Builder()
    make.stage("recorded", "record", nodes=1)
    make.stage("dedup", "rewrite", nodes=1)
    assert stage_result(make.roots(make.leaf("x")), 1) == "changed nothing."


@pytest.mark.spec("V-1")
def test_the_result_of_a_single_decision_is_its_sentence():
    """Memory formats and constants have no groups and replace nothing, so "1 change" would not describe the change."""
    recording = ex.open(MODELS / "resnet18.pnnx.param").preview_plan().recording
    number = [stage.name for stage in recording.stages].index("memory_format")
    count = recording.decisions[recording.stages[number].first].facts["count"]
    text = stage_result(recording, number)
    assert re.fullmatch(rf"{count} results are stored pixel by pixel.*\.", text)
    assert "because" not in text


@pytest.mark.spec("P-7", "V-1")
@pytest.mark.parametrize(
    ("program", "phrase"),
    [
        (lambda x: ex.softmax(ex.softmax(x) @ x), "kernels, each of which needs the one before"),
        (lambda x: [ex.softmax(x), x.max(axis=0)], "2 kernels, up to 2 at a time"),
        (lambda x: ex.softmax(x), "1 kernel, "),
    ],
    ids=["a chain", "side by side", "one"],
)
def test_the_result_of_the_order_shows_parallelism(program, phrase):
    """Kernels of one level are independent; if each level has one kernel, no two kernels can run in parallel."""
    plan = ex.EvalPlan()
    roots = program(ex.tensor(np.ones((4, 4), np.float32)))
    for root in roots if isinstance(roots, list) else [roots]:
        plan.register(root)
    plan.prepare()
    recording = plan.recording
    number = next(number for number, stage in enumerate(recording.stages) if stage.kind == "order")
    text = stage_result(recording, number)
    assert phrase in text
    assert text.endswith("estimated.")
