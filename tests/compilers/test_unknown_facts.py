"""Recordings whose compiler reports no flops, levels, buffers, estimates or memory: views and texts leave them out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import explorer as ex
from explorer.record.json_form.codec import from_json, json_schema, to_json
from explorer.record.rows import total
from explorer.reports import compare
from explorer.view.export.text import text as export
from explorer.view.model.stage_texts import stage_result
from tests.support.toy_compiler import toy_compiler, unknown


@pytest.mark.spec("X-1")
def test_texts_leave_out_what_is_unknown(tmp_path: Path) -> None:
    recording = unknown()
    view = ex.explore(recording)
    text = export(recording)
    assert "schedule: 2 kernels\n" in text
    assert "  1 exp: 128 B\n" in text
    view.save(tmp_path / "view.html")
    for each in (text, view.why("exp", "sum"), compare(recording, unknown()).text()):
        assert not re.search(r"flop|level|chain|buffer|peak|most live|estimated|None|null", each), each


def test_a_stage_leaves_out_what_is_unknown() -> None:
    recording = unknown()
    results = [stage_result(recording, number) for number in range(3)]
    assert results == ["", "2 kernels.", "2 kernels took 8 µs in a warm run."]


@pytest.mark.spec("X-1")
def test_unknown_numbers_are_null_in_json_or_absent() -> None:
    plain = to_json(unknown())
    assert plain["schedule"]["kernels"][0]["flops"] is None
    assert to_json(from_json(plain)) == plain
    for kernel in plain["schedule"]["kernels"]:
        for name in ("level", "chain", "flops", "estimate", "buffer", "live"):
            del kernel[name]
    del plain["schedule"]["peak"]
    assert from_json(plain).schedule == unknown().schedule
    flops = json_schema()["properties"]["nodes"]["properties"]["flops"]["items"]
    assert flops == {"anyOf": [{"type": "integer"}, {"type": "null"}]}


def test_a_comparison_of_an_unknown_count_with_a_known_one_states_no_difference() -> None:
    x = ex.tensor([1.0, 2.0], name="x")
    plan = ex.EvalPlan()
    plan.register(ex.exp(x).sum())
    plan.prepare()
    counts = plan.compare(unknown()).counts
    assert counts["flops"][0] is not None
    assert counts["flops"][1] is None
    assert counts["peak_bytes"][1] is None


def test_an_assertion_about_an_unknown_peak_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(ex.OperandError, match="without a peak"):
        ex.testing.assert_peak(unknown(), at_most="1KB")
    kept = tmp_path / "kept.plan.json"
    ex.testing.assert_same_plan(unknown(), kept, update=True)
    ex.testing.assert_same_plan(unknown(), kept)


def test_a_total_with_an_unknown_number_is_unknown() -> None:
    assert total([1, 2]) == 3
    assert total([1, None]) is None
    assert total([]) == 0


def test_a_recording_without_kernels_is_compared_with_one_that_has_kernels() -> None:
    comparison = compare(toy_compiler(), unknown())
    assert "kernels: 0 the same, 2 places where not" in comparison.text()
    assert "  nothing → 1 exp" in comparison.text()
    assert "kernels" in comparison.html()
