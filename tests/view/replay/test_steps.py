"""Steps of a view: decisions, then kernels, stage by stage."""

import pytest

from explorer.view.replay.steps import stage_ends, stage_kernels
from tests.view import sample


@pytest.mark.spec("V-1")
def test_a_stage_has_a_step_for_each_decision_then_for_each_kernel():
    recording = sample.mlp()
    names = [stage.name for stage in recording.stages]
    assert dict(zip(names, stage_kernels(recording), strict=True)) == {
        "recorded": [], "simplify": [], "dedup": [], "fuse": [],
        "order": [0, 1, 2, 3], "buffers": [], "run": [0, 1, 2, 3],
    }  # fmt: skip
    assert dict(zip(names, stage_ends(recording), strict=True)) == {
        "recorded": 0, "simplify": 3, "dedup": 4, "fuse": 8, "order": 12, "buffers": 12, "run": 16,
    }  # fmt: skip


@pytest.mark.spec("V-1")
def test_a_recording_without_plan_and_run_has_no_steps():
    recording = sample.mlp()
    recording.schedule = recording.run = None
    assert stage_kernels(recording) == [[]] * 7
    assert stage_ends(recording)[-1] == recording.end
