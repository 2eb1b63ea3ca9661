"""Labels of facts, and counts of stages, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.record import Stage
from explorer.view.model.decision_facts import fact_labels, note
from explorer.view.model.stage_texts import count_value, stage_cost, stage_size
from tests.view import sample


@pytest.mark.spec("V-2")
def test_units_stand_with_the_values_and_no_two_facts_have_one_label() -> None:
    """A unit is part of a label only where two facts differ by nothing else."""
    decision = replace(
        sample.mlp().decisions[0], facts={"size_bytes": 1, "saved_bytes": 1, "saved_flops": 2, "n_us": 3}
    )
    assert list(fact_labels(decision).values()) == ["size", "saved bytes", "saved flops", "n"]
    both = replace(decision, facts={"kept": 1, "kept_us": 2, "kept_bytes": 3})
    assert list(fact_labels(both).values()) == ["kept", "kept time", "kept bytes"]


@pytest.mark.spec("P-17", "V-2")
def test_prices_of_a_measured_batch_are_estimates() -> None:
    """Once a batch was measured, its prices say that they are estimates, and a note tells what was not measured."""
    priced = replace(sample.mlp().decisions[0], facts={"together_us": 1.0, "separate_us": 2.0})
    measured = replace(priced, facts={**priced.facts, "measured_us": 3.0})
    assert list(fact_labels(priced).values()) == ["together", "separate"]
    assert list(fact_labels(measured).values()) == ["together, estimated", "separate, estimated", "measured"]
    assert (note(priced), bool(note(measured))) == ("", True)


@pytest.mark.spec("V-19")
def test_a_stage_says_what_there_is_more_or_less_of_after_it() -> None:
    """Nodes of the graph, kernels that were picked, steps that ran; memory formats and places change none of these."""
    counts = {"nodes": 1234, "kernels": 9, "steps": 4, "flops": 3_640_000_000, "bytes": 12 << 20, "peak": 2048}
    sizes = {kind: stage_size(Stage("s", kind, 0, 0, counts)) for kind in ("record", "order", "memory", "run")}
    assert sizes == {"record": "1,234", "order": "9 kernels", "memory": "", "run": "4 steps"}
    assert stage_cost(Stage("s", "record", 0, 0, counts)) == "3.64 G flops · 12 MB written"
    assert stage_cost(Stage("s", "record", 0, 0, {})) == ""
    assert [count_value(*count) for count in counts.items()] == ["1,234", "9", "4", "3.64 G", "12 MB", "2 KB"]
