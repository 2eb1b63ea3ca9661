"""Recordings of earlier schemas can be read."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.plan import PASSES
from explorer.record import from_json, loads, to_json
from explorer.view.export.text import text


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
        stage["name"] = {"memory_format": "layout"}.get(stage["name"], stage["name"])
        stage["kind"] = {"rewrite": "pass", "order": "schedule", "format": "schedule", "memory": "schedule"}.get(
            stage["kind"], stage["kind"]
        )
    assert {"order", "format", "memory", "rewrite"} <= {stage["kind"] for stage in today["stages"]}
    assert to_json(from_json(former)) == today


@pytest.mark.parametrize("stages", [None, 3, [3], [{"kind": 3}], [{"kind": "schedule"}]])
@pytest.mark.spec("V-14")
def test_the_error_of_a_damaged_recording_of_schema_1_contains_its_field(stages: object) -> None:
    plain = {**to_json(_small()), "schema": 1, "stages": stages}
    with pytest.raises(ValueError, match="stages"):
        from_json(plain)


@pytest.mark.spec("V-14")
def test_a_recording_of_schema_1_gets_current_names() -> None:
    """Stages, rules, operations, facts and fields in a file from schema 1's last version get current names."""
    recording = loads((Path(__file__).parent / "schema_1.json").read_text(encoding="utf-8"))
    names = [stage.name.removesuffix(" again") for stage in recording.stages]
    assert set(names) - {"recorded", "run"} <= set(PASSES)
    assert {"batch", "inline", "memory_format"} <= set(names)
    rules = {(decision.rule, decision.code) for decision in recording.decisions}
    assert {("Batch", "batched"), ("Inline", "inlined"), ("RedundantActivation", "nonnegative_already")} <= rules
    assert all(ex.operation(name) for name in recording.operations if name not in ("parameter", "tensor", "call"))
    assert {"slice", "index0"} <= set(recording.operations) & set(recording.nodes.label)
    assert any("estimated_cost_us" in decision.facts for decision in recording.declined)
    assert recording.schedule is not None
    assert {kernel.pick_reason for kernel in recording.schedule.kernels} <= {"earliest", "only"}
    assert "peak_lower_bound" in recording.stages[names.index("buffers")].counts
    assert "RedundantActivation" in text(recording)


@pytest.mark.spec("V-14")
@pytest.mark.parametrize("field", ["options", "operations", "nodes", "decisions", "schedule", "stages"])
@pytest.mark.parametrize("value", [None, 3, [3], [None], {}, [{}], {"kernels": 3}, {"label": 3}])
def test_a_damaged_field_of_schema_1_raises_an_error_or_is_read(field: str, value: object) -> None:
    """The decoder reports mismatches with the field."""
    plain = {**to_json(_small()), "schema": 1, field: value}  # type: ignore[arg-type]
    try:
        from_json(plain)
    except ValueError as error:
        assert field in str(error)  # noqa: PT017 - some of the values fit


def _small() -> object:
    plan = ex.EvalPlan()
    plan.register(ex.tensor(1.0) + 1.0)
    return plan.prepare().recording
