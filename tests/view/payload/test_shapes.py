"""Types of the payload: the front end's types match the rows, shapes.py and real payloads."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, is_typeddict

import pytest

import explorer as ex
from assets import front_end_types
from assets.front_end_types import hints
from explorer.record import Recording
from explorer.record.json_form.codec import OPTIONAL
from explorer.view.layout.placed_model import draw
from explorer.view.payload.shapes import PayloadTables
from explorer.view.payload.view_payload import payload
from tests.golden.programs import PROGRAMS, recorded
from tests.support.cells import MODELS
from tests.support.large import flat
from tests.support.unpacked import unpack
from tests.view import sample


def test_the_types_file_is_up_to_date() -> None:
    """``python assets/front_end_types.py`` would change nothing."""
    assert front_end_types.TARGET.read_text(encoding="utf-8") == front_end_types.declarations()


def mismatches(value: Any, hint: Any, path: str) -> Iterator[str]:
    """Yield the paths at which a JSON value does not have a type, with the value there."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return
    if is_typeddict(hint) or is_dataclass(hint):
        fields = hints(hint)
        optional = {name for name, kind in fields.items() if get_origin(kind) is NotRequired}
        if not isinstance(value, dict) or value.keys() - fields or fields.keys() - value.keys() - optional:
            yield f"{path}: {sorted(value) if isinstance(value, dict) else value!r} is no {hint.__name__}"
            return
        for name, item in value.items():
            kind = get_args(fields[name])[0] if name in optional else fields[name]
            yield from mismatches(item, kind, f"{path}.{name}")
    elif origin in (Union, types.UnionType):
        if all(any(mismatches(value, each, path)) for each in inner):
            yield f"{path}: {value!r} is no {hint}"
    elif origin is Literal:
        if value not in inner:
            yield f"{path}: {value!r} is no {hint}"
    elif origin is dict:
        for key, item in value.items():
            if inner[0] is int and not str(key).lstrip("-").isdigit():
                yield f"{path}: {key!r} is no number"
            yield from mismatches(item, inner[1], f"{path}[{key}]")
    elif origin in (list, tuple):
        if not isinstance(value, list):
            yield f"{path}: {value!r} is no list"
            return
        fixed = origin is tuple and inner[-1] is not ...
        if fixed and len(value) != len(inner):
            yield f"{path}: {value!r} is no {hint}"
            return
        for index, item in enumerate(value):
            yield from mismatches(item, inner[index] if fixed else inner[0], f"{path}[{index}]")
    elif type(value) is not (type(None) if hint is None else hint) and not (hint is float and type(value) is int):
        yield f"{path}: {value!r} is no {hint}"


def run() -> Recording:
    plan = ex.EvalPlan()
    for value in flat(80)[-3:]:
        plan.register(value)
    return plan.eval().recording


RECORDINGS = {
    **{name: lambda name=name: recorded(name) for name in PROGRAMS},
    "a run": run,
    "a sample": sample.mlp,
    "a model's file": lambda: ex.open(MODELS / "resnet18.pnnx.param").preview_plan().recording,
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_payloads_have_the_shapes(name: str) -> None:
    data = json.loads(json.dumps(payload(RECORDINGS[name]())))
    tables = {part: rows if part == "options" else unpack(rows) for part, rows in data.items()}
    assert [*mismatches(tables, PayloadTables, "payload")] == []


def test_a_box_without_a_layout_has_its_shape() -> None:
    recording = sample.dag(3000)
    drawing = draw(recording)
    data = json.loads(json.dumps(payload(recording, drawing=drawing, boxes=drawing.layouts.at_once())))
    tables = {part: rows if part == "options" else unpack(rows) for part, rows in data.items()}
    assert not all(box["placed"] for box in tables["layout"]["boxes"])
    assert [*mismatches(tables, PayloadTables, "payload")] == []


def test_optional_tables_may_be_omitted() -> None:
    fields = hints(hints(PayloadTables)["recording"])
    left_out = {name for name, kind in fields.items() if get_origin(kind) is NotRequired}
    # The table of dimensions is sent as strings.
    assert left_out == set(OPTIONAL) & fields.keys() - {"declined_edges", "explanations", "layers"} | {"declared"}


def test_a_wrong_shape_is_found() -> None:
    data = json.loads(json.dumps(payload(sample.mlp())))
    tables = {part: rows if part == "options" else unpack(rows) for part, rows in data.items()}
    tables["recording"]["decisions"][0]["cost"] = "1"
    tables["layout"]["boxes"][0].pop("kind")
    assert len([*mismatches(tables, PayloadTables, "payload")]) == 2
