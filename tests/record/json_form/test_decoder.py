"""Recordings from JSON: equal after writing and reading, and invalid ones rejected with the location."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from explorer.record import Body, Decision, Nodes, Recording, Scope, Stage, Type, from_json, json_schema, loads, to_json

Plain = dict[str, Any]


@pytest.fixture
def recording() -> Recording:
    """Return x + x, then the two merged into one doubled leaf."""
    return Recording(
        title="double",
        operations=["Source", "Add", "Multiply"],
        types=[Type((2, 3), "float32", "cpu"), Type((), "tuple", "cpu", (0, 0))],
        scopes=[Scope("", "top", -1), Scope("layer", "layer", 0)],
        bodies=[Body("", (0,), (1,))],
        nodes=Nodes(
            operation=[0, 1, 2],
            kind=["leaf", "operation", "operation"],
            label=["x", "add", "multiply"],
            type=[0, 0, 0],
            operands=[(), (0, 0), (0,)],
            scope=[0, 1, 1],
            source=[-1, -1, -1],
            flops=[0, 6, 6],
            bytes=[24, 24, 24],
            born=[-1, -1, 0],
            gone=[-1, 0, -1],
            body=[0, 0, 0],
            callee=[-1, -1, -1],
            attributes={1: {"how": "twice"}},
        ),
        stages=[Stage("record", "record", 0, 0, {"nodes": 2}), Stage("simplify", "rewrite", 0, 1, {"nodes": 2})],
        decisions=[
            Decision(1, "Double", "applied", "same", "{left} twice", {"left": {"node": 0}, "saved_us": 1.5}, (1,), (2,))
        ],
        substitutions=[(0, 1, 2)],
    )


def test_a_recording_is_equal_after_writing_and_reading(recording: Recording) -> None:
    text = json.dumps(to_json(recording))
    assert loads(text) == recording


def test_the_json_form_conforms_to_the_published_schema(recording: Recording) -> None:
    jsonschema.validate(to_json(recording), json_schema())


def _set(*path: Any, to: Any) -> Callable[[Plain], None]:
    def change(plain: Plain) -> None:
        holder: Any = plain
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = to

    return change


GROUP = {"decision": 0, "kind": "kernel", "label": "", "members": [1]}


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (_set("schema", to=99), "this recording has schema 99; this version of explorer reads schemas 1 to 2:"),
        (_set("title", to=None), "recording.title: expected a string, found null"),
        (_set("types", 0, "shape", 1, to="3"), r"recording.types\[0\].shape\[1\]: expected an integer, found '3'"),
        (_set("types", 0, "shape", 1, to=True), r"recording.types\[0\].shape\[1\]: expected an integer, found True"),
        (_set("nodes", "kind", 2, to="leave"), r"recording.nodes.kind\[2\]: expected 'leaf' or .*, found 'leave'"),
        (
            _set("groups", to=[GROUP | {"kind": "x"}]),
            r"recording.groups\[0\].kind: expected 'kernel' or .*, found 'x'",
        ),
        (_set("groups", to=[GROUP | {"kind": 3}]), r"recording.groups\[0\].kind: expected 'kernel' or .*, found 3"),
        (_set("nodes", "extra", to=1), "recording.nodes: expected an object of operation, .*, found unknown 'extra'"),
        (_set("bodies", 0, to={"name": ""}), r"recording.bodies\[0\]: expected .*, found no inputs, outputs"),
        (_set("substitutions", 0, to=[0, 1]), r"recording.substitutions\[0\]: expected a list of 3 values, found 2"),
        (
            _set("substitutions", to=[[0, 1, 2], [0, 2, 1]]),
            "substitutions: node 1 is put in the place of 2, and was",
        ),
        (_set("substitutions", to=[[0, 1, 1]]), "substitutions: node 1 is put in the place of 1, and was"),
        (_set("substitutions", to=[[0, 0, 1], [0, 0, 2]]), "substitutions: node 2 is put in the place of 0, which was"),
        (_set("nodes", "attributes", to={"01": {}}), "attributes: expected node ids as names, found '01'"),
        (_set("nodes", "label", to=["x"]), "label: expected 3 values, as many as operation has, found 1"),
        (_set("nodes", "operands", 1, to=[0, 3]), "recording.nodes.operands: 3 is no row of nodes, which has 3"),
        (_set("nodes", "source", 0, to=-2), "recording.nodes.source: -2 is no row of sources, which has 0"),
        (_set("types", 1, "parts", to=[1]), "recording.types.parts: row 1 is a part of itself"),
        (_set("scopes", 0, "parent", to=1), "recording.scopes.parent: row 0 is a part of itself"),
        (_set("stages", 1, "last", to=2), "recording.stages: 0 … 2 are not among the 1 decisions"),
        (_set("decisions", 0, "reason", to="{right}"), "'right' is none of the facts of decision 'same', .* 'left'"),
        (_set("decisions", 0, "facts", "left", to={"x": 0}), 'must have the form {"node": id}'),
        (_set("decisions", 0, "facts", "saved_us", to="1"), r"facts\['saved_us'\]: expected a number, as the name"),
    ],
)
def test_the_error_of_a_damaged_recording_contains_the_field(
    recording: Recording, change: Callable[[Plain], None], refusal: str
) -> None:
    """It also has the given and the expected value."""
    plain = to_json(recording)
    plain = json.loads(json.dumps(plain))
    change(plain)
    with pytest.raises(ValueError, match=refusal):
        from_json(plain)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("[]", "expected an object, found a list"),
        ("{", "it cannot be read as JSON"),
        ('{"schema": NaN}', "NaN is no finite number"),
        ('{"schema": 1e999}', "1e999 is no finite number"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_string_that_is_no_recording_raises_an_error(text: str, refusal: str) -> None:
    with pytest.raises(ValueError, match="this is no recording: .*" + refusal):
        loads(text)


def test_recordings_with_scopes_without_a_type_are_read(recording: Recording) -> None:
    plain = to_json(recording)
    for scope in plain["scopes"]:
        assert scope.pop("type") == ""
    assert from_json(plain) == recording
