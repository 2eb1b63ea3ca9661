"""Recordings of earlier schemas are read."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.record import from_json, to_json


@pytest.mark.spec("V-14")
def test_a_recording_of_schema_1_is_read_with_the_kinds_of_its_stages() -> None:
    x = Parameter(ex.TensorType((1, 3, 8, 8), np.float32), "x")()
    plan = ex.EvalPlan()
    plan.register(ex.relu(ex.conv2d(x, np.ones((4, 3, 3, 3), np.float32))).sum())
    plan.eval({x: np.ones((1, 3, 8, 8), np.float32)})
    today = to_json(plan.recording)
    former = copy.deepcopy(today)
    former["schema"] = 1
    for stage in former["stages"]:
        stage["kind"] = {"rewrite": "pass", "order": "schedule", "format": "schedule", "memory": "schedule"}.get(
            stage["kind"], stage["kind"]
        )
    assert {"order", "format", "memory", "rewrite"} <= {stage["kind"] for stage in today["stages"]}
    assert to_json(from_json(former)) == today


@pytest.mark.parametrize("stages", [None, 3, [3], [{"kind": 3}], [{"kind": "schedule"}]])
@pytest.mark.spec("V-14")
def test_a_damaged_recording_of_schema_1_is_refused_by_its_field(stages: object) -> None:
    plain = {**to_json(_small()), "schema": 1, "stages": stages}
    with pytest.raises(ValueError, match="stages"):
        from_json(plain)


def _small() -> object:
    plan = ex.EvalPlan()
    plan.register(ex.tensor(1.0) + 1.0)
    return plan.prepare().recording
