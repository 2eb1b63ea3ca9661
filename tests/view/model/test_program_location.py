from dataclasses import replace

import pytest

import explorer as ex
from explorer.view.model.program_location import decision_location, node_location
from tests.view import sample


@pytest.mark.spec("V-22")
def test_a_location_contains_scopes_name_and_line() -> None:
    with ex.scope("block"), ex.scope("inner"):
        y = ex.tanh(ex.tensor([1.0], name="x"))
    plan = ex.EvalPlan()
    plan.register(y)
    recording = plan.prepare().recording
    where = recording.sources[recording.nodes.source[recording.roots[0]]].location
    assert node_location(recording, recording.roots[0]) == f"block / inner / y = tanh, {where}"
    assert where.startswith("test_program_location.py line ")


@pytest.mark.spec("V-22")
def test_an_operator_of_a_file_is_named_without_a_line() -> None:
    recording = ex.open("assets/digits.onnx").preview_plan().recording
    assert recording.nodes.source[recording.roots[0]] >= 0
    assert node_location(recording, recording.roots[0]) == "softmax / Softmax / softmax"


@pytest.mark.spec("V-22")
def test_two_locations_are_named_and_more_are_counted() -> None:
    recording = sample.mlp()
    row = recording.decisions[0]
    one, two, three = 4, 5, 6
    locations = [node_location(recording, node) for node in (one, two)]
    assert decision_location(recording, replace(row, subjects=(one,))) == locations[0]
    assert decision_location(recording, replace(row, subjects=(one, two))) == " and ".join(locations)
    assert decision_location(recording, replace(row, subjects=(one, one))) == locations[0]
    assert decision_location(recording, replace(row, subjects=(one, two, three))) == f"{locations[0]} and 2 more"
    assert decision_location(recording, replace(row, subjects=(), produced=(two,))) == locations[1]
    assert decision_location(recording, replace(row, subjects=(), produced=())) == ""
