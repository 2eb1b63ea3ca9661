"""Golden recordings: plan decisions about small programs, as codes, facts, names and numbers without prose."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path

import jsonschema
import pytest

import explorer as ex
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.record import from_json, json_schema, to_json
from explorer.record.json_form import codec
from explorer.view.export.text import text
from tests.golden.programs import PROGRAMS, recorded
from tests.golden.rows import LEFT_OUT, as_text, rows

HERE = Path(__file__).parent
SCHEMA = Path(codec.__file__).with_name("recording.schema.json")
MAKE = "if the change is meant: python tests/golden/make.py"


@pytest.mark.spec("P-14", "V-22")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_plan_makes_the_golden_decisions(name: str) -> None:
    recorded(name)  # nodes shared by all uses of a function do not record which use was first
    kept, now = (HERE / f"{name}.json").read_text(encoding="utf-8"), as_text(recorded(name))
    changed = unified_diff(
        kept.splitlines(), now.splitlines(), f"{name}.json", f"{name} as it is planned now", "", "", 0
    )
    assert kept == now, "\n".join([MAKE, *changed])


@pytest.mark.spec("P-14")
@pytest.mark.parametrize("name", PROGRAMS)
def test_other_words_and_locations_change_no_golden_file(name: str) -> None:
    recording = recorded(name)
    before = as_text(recording)
    recording.decisions = [
        replace(decision, reason="said anew", location="moved.py:1") for decision in recording.decisions
    ]
    recording.stages = [replace(stage, purpose="said anew", micros=1.0) for stage in recording.stages]
    assert as_text(recording) == before
    recording.decisions[0] = replace(recording.decisions[0], code="another")
    assert as_text(recording) != before


@pytest.mark.spec("P-14")
def test_decisions_of_rules_have_the_position_of_the_rule_in_the_chain() -> None:
    recording = recorded("inverse_pair")
    simplify = [stage.name for stage in recording.stages].index("simplify")
    asked = [decision for decision in recording.decisions if decision.stage == simplify]
    assert {decision.verdict for decision in asked} == {"applied", "declined"}
    assert [ex.Rule.rules[decision.rule_index].name for decision in asked] == [decision.rule for decision in asked]


@dataclass(frozen=True)
class Idle(ex.Pass):
    """Change nothing."""

    name = "idle"

    def run(self, graph: PlanGraph) -> None:
        """Decide nothing."""


@pytest.mark.spec("P-14")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_pass_that_changes_nothing_changes_no_golden_file(name: str) -> None:
    passes = ex.default_passes()
    recording = recorded(name, passes=[Idle(), *passes[:4], Idle(), *passes[4:]])
    assert "idle" in [stage.name for stage in recording.stages]
    before, after = rows(recorded(name)), rows(recording)
    assert after.pop("options") == {**before.pop("options"), "passes": [*recording.options["passes"]]}
    assert after == before


@pytest.mark.spec("H-7")
def test_the_published_schema_of_recordings_equals_the_generated_one() -> None:
    """Otherwise, run ``python tests/golden/make.py``; ``schema`` must change if older files are no longer valid."""
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == json_schema()


@pytest.mark.spec("P-16")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_recording_conforms_to_its_schema_and_is_equal_after_reading(name: str) -> None:
    recording = recorded(name)
    plain = json.loads(json.dumps(to_json(recording)))
    jsonschema.validate(plain, json.loads(SCHEMA.read_text(encoding="utf-8")))
    again = from_json(plain)
    assert again == recording
    assert text(again) == text(recording)


def test_golden_files_match_the_programs_and_contain_no_prose() -> None:
    assert {path.name for path in HERE.iterdir() if path.suffix in (".json", ".txt")} == {f"{n}.json" for n in PROGRAMS}
    for name in PROGRAMS:
        tables = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
        for table, columns in LEFT_OUT.items():
            assert tables[table]
            assert not any(column in row for row in tables[table] for column in columns)
