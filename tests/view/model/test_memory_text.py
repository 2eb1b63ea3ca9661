"""Texts about memory: the peak is one sum, the same in every text and picture."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given

import explorer as ex
from explorer.record import Recording
from explorer.record.reasons import bytes_text
from explorer.view.export.text import text as canonical
from explorer.view.model.stage_texts import (
    PARTS,
    memory_counts,
    most_live_text,
    peak_text,
    stage_counts,
    stage_result,
)
from tests.support.programs import prepared, programs

UNITS = {"B": 1, "KB": 2**10, "MB": 2**20}


def parsed(size: str) -> float:
    number, unit = size.split()
    return float(number) * UNITS[unit]


def memory_result(recording: Recording) -> str:
    (number,) = [number for number, stage in enumerate(recording.stages) if stage.kind == "memory"]
    return stage_result(recording, number)


@pytest.mark.spec("V-5", "P-8")
@given(roots=programs())
def test_parts_of_memory_add_up_to_the_peak(roots: list[Any]) -> None:
    """Arena, requested results and working memory add up to the peak, in counts and texts; no more is live."""
    for options in ({}, {"without": ["fuse"]}, {"executor": "dag"}):
        recording = prepared(*roots, **options).recording
        schedule, counts = recording.schedule, memory_counts(recording)
        assert schedule is not None
        assert sum(counts[part] for part in PARTS) == counts["peak"] == schedule.peak
        text = peak_text(recording)
        whole, *parts = re.findall(r"[\d.]+ [KM]?B", text)
        assert whole == bytes_text(schedule.peak)
        assert sum(map(parsed, parts)) == pytest.approx(schedule.peak, rel=0.02)
        most = max([kernel.live for kernel in schedule.kernels], default=0)
        assert most == counts["peak_lower_bound"] <= schedule.peak <= schedule.peak_without_reuse
        assert (most_live_text(recording) != "") is (most > 0)
        assert text in memory_result(recording)
        assert text in canonical(recording)


@pytest.mark.spec("V-5", "V-22")
def test_one_sentence_joins_peak_and_live_memory() -> None:
    """The result of the stage buffers, `explain()`, and a failing `assert_peak` have the same sentence."""
    x = ex.tensor([[1.0] * 64] * 64)
    plan = ex.EvalPlan(without="fuse")
    for value in (ex.tanh(x @ x) @ x, ex.exp(x @ x).sum()):
        plan.register(value)
    recording = plan.prepare().recording
    joined = "peak 96 KB = arena 64 KB + requested results 32 KB"
    assert peak_text(recording) == joined
    most = most_live_text(recording)
    assert re.fullmatch(r"most live 96 KB, in kernel \d", most)
    assert f"{joined}, {most}" in memory_result(recording)
    assert f"; {joined}; {most}; without reuse " in plan.explain()
    with pytest.raises(AssertionError, match=re.escape(f"{joined}: 16 KB more than 80 KB")):
        ex.testing.assert_peak(plan, at_most="80KB")


@pytest.mark.spec("V-5")
def test_names_of_counts_are_terms_of_the_glossary() -> None:
    """Counts have the names that sentences use: written, arena, most live; never alive, never a bound."""
    plan = ex.EvalPlan()
    plan.register(ex.tanh(ex.tensor([[1.0] * 4] * 4)) @ ex.tensor([[1.0] * 4] * 4))
    (stage,) = [stage for stage in plan.prepare().recording.stages if stage.kind == "memory"]
    names = [name for name, _ in stage_counts(stage)]
    assert {"written", "peak", *PARTS.values(), "most live", "without reuse"} <= set(names)
    assert not re.search(r"\balive\b|\bbound\b", plan.explain())
