"""Golden recordings: what plans decide about small programs, letter by letter."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from explorer.record import from_json, json_schema
from explorer.view.text import text
from tests.golden.make import as_text
from tests.golden.programs import PROGRAMS, recorded

HERE = Path(__file__).parent
MAKE = "if the change is meant: python tests/golden/make.py"


@pytest.mark.spec("P-14", "V-22")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_plan_is_told_as_it_was(name: str) -> None:
    recorded(name)  # what is made once for all uses of a function does not tell who was first
    recording = recorded(name)
    assert text(recording) == (HERE / f"{name}.txt").read_text(encoding="utf-8"), MAKE
    assert as_text(recording) == (HERE / f"{name}.json").read_text(encoding="utf-8"), MAKE


@pytest.mark.spec("P-16")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_recording_holds_to_its_schema_and_is_read_back(name: str) -> None:
    plain = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.validate(plain, json_schema())
    assert text(from_json(plain)) == (HERE / f"{name}.txt").read_text(encoding="utf-8")


def test_there_is_no_golden_file_without_a_program() -> None:
    assert {path.stem for path in HERE.glob("*.json")} == {path.stem for path in HERE.glob("*.txt")} == set(PROGRAMS)
