"""The front end's types are those of its payload: of the rows, of the shapes of other tables, and of real payloads."""

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


def test_the_file_of_types_is_that_of_the_shapes() -> None:
    """``python assets/front_end_types.py`` would change nothing."""
    assert front_end_types.TARGET.read_text(encoding="utf-8") == front_end_types.declarations()


def wrong(value: Any, hint: Any, path: str) -> Iterator[str]:
    """The places at which a JSON value is not of a type, with what stands there."""
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
            yield from wrong(item, kind, f"{path}.{name}")
    elif origin in (Union, types.UnionType):
        if all(any(wrong(value, each, path)) for each in inner):
            yield f"{path}: {value!r} is no {hint}"
    elif origin is Literal:
        if value not in inner:
            yield f"{path}: {value!r} is no {hint}"
    elif origin is dict:
        for key, item in value.items():
            if inner[0] is int and not str(key).lstrip("-").isdigit():
                yield f"{path}: {key!r} is no number"
            yield from wrong(item, inner[1], f"{path}[{key}]")
    elif origin in (list, tuple):
        if not isinstance(value, list):
            yield f"{path}: {value!r} is no list"
            return
        fixed = origin is tuple and inner[-1] is not ...
        if fixed and len(value) != len(inner):
            yield f"{path}: {value!r} is no {hint}"
            return
        for place, item in enumerate(value):
            yield from wrong(item, inner[place] if fixed else inner[0], f"{path}[{place}]")
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
    held = json.loads(json.dumps(payload(RECORDINGS[name]())))
    tables = {part: rows if part == "options" else unpack(rows) for part, rows in held.items()}
    assert [*wrong(tables, PayloadTables, "payload")] == []


def test_a_box_that_is_not_laid_out_has_its_shape() -> None:
    recording = sample.dag(3000)
    drawing = draw(recording)
    held = json.loads(json.dumps(payload(recording, drawing=drawing, boxes=drawing.layouts.at_once())))
    tables = {part: rows if part == "options" else unpack(rows) for part, rows in held.items()}
    assert not all(box["placed"] for box in tables["layout"]["boxes"])
    assert [*wrong(tables, PayloadTables, "payload")] == []


def test_optional_tables_are_those_that_may_be_left_out() -> None:
    fields = hints(hints(PayloadTables)["recording"])
    left_out = {name for name, kind in fields.items() if get_origin(kind) is NotRequired}
    # the table of dimensions is sent as texts
    assert left_out == set(OPTIONAL) & fields.keys() - {"declined_edges", "explanations", "layers"} | {"declared"}


def test_a_wrong_shape_is_found() -> None:
    held = json.loads(json.dumps(payload(sample.mlp())))
    tables = {part: rows if part == "options" else unpack(rows) for part, rows in held.items()}
    tables["recording"]["decisions"][0]["cost"] = "1"
    tables["layout"]["boxes"][0].pop("kind")
    assert len([*wrong(tables, PayloadTables, "payload")]) == 2
