"""Labels of facts, and counts of stages, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.record import Stage
from explorer.view.model.decision_facts import fact_labels, note
from explorer.view.model.stage_texts import count_value, stage_cost, stage_size
from tests.view import sample


@pytest.mark.spec("V-2")
def test_labels_of_facts_are_unique_and_without_units() -> None:
    """A unit is part of a label only if two labels would otherwise be equal."""
    decision = replace(
        sample.mlp().decisions[0], facts={"size_bytes": 1, "saved_bytes": 1, "saved_flops": 2, "n_us": 3}
    )
    assert list(fact_labels(decision).values()) == ["size", "saved bytes", "saved flops", "n"]
    both = replace(decision, facts={"kept": 1, "kept_us": 2, "kept_bytes": 3})
    assert list(fact_labels(both).values()) == ["kept", "kept time", "kept bytes"]


@pytest.mark.spec("P-17", "V-2")
def test_costs_of_a_measured_batch_are_marked_as_estimates() -> None:
    """The costs of a measured batch are marked as estimates, and a note states the part that was not measured."""
    priced = replace(sample.mlp().decisions[0], facts={"together_us": 1.0, "separate_us": 2.0})
    measured = replace(priced, facts={**priced.facts, "measured_us": 3.0})
    assert list(fact_labels(priced).values()) == ["together", "separate"]
    assert list(fact_labels(measured).values()) == ["together, estimated", "separate, estimated", "measured"]
    assert (note(priced), bool(note(measured))) == ("", True)


@pytest.mark.spec("V-19")
def test_the_size_of_a_stage_counts_its_nodes_kernels_or_steps() -> None:
    """Sizes count nodes, ordered kernels or steps of the run; memory formats and buffers change none of these."""
    counts = {"nodes": 1234, "kernels": 9, "steps": 4, "flops": 3_640_000_000, "bytes": 12 << 20, "peak": 2048}
    sizes = {kind: stage_size(Stage("s", kind, 0, 0, counts)) for kind in ("record", "order", "memory", "run")}
    assert sizes == {"record": "1,234", "order": "9 kernels", "memory": "", "run": "4 steps"}
    assert stage_cost(Stage("s", "record", 0, 0, counts)) == "3.64 G flops · 12 MB written"
    assert stage_cost(Stage("s", "record", 0, 0, {})) == ""
    assert [count_value(*count) for count in counts.items()] == ["1,234", "9", "4", "3.64 G", "12 MB", "2 KB"]
