"""Measured times of batches, added to the decisions that created them, beside the estimates."""

from __future__ import annotations

from dataclasses import replace

from explorer.record import Decision, Recording, Run
from explorer.record.batches import batches


def add_batch_timings(recording: Recording, run: Run) -> list[Decision]:
    """Return the decisions, those of batches with ``measured_us``: the time of the kernels that computed the batch.

    ``computed_with`` lists results of other batches that share these kernels, ``kernels`` their number. The members
    were not run one by one, so ``separate_us`` remains an estimate.
    """
    recorded_batches = batches(recording)
    if not recorded_batches:
        return recording.decisions
    micros: dict[int, float] = {}
    for step in run.steps:
        micros[step.kernel] = micros.get(step.kernel, 0.0) + step.micros
    sharing: dict[int, list[int]] = {}
    for batch in recorded_batches:
        for kernel in batch.kernels:
            sharing.setdefault(kernel, []).append(batch.decision)
    decisions = list(recording.decisions)
    for batch in recorded_batches:
        if not batch.kernels:
            continue
        decision = decisions[batch.decision]
        sharers = sorted({other for kernel in batch.kernels for other in sharing[kernel]} - {batch.decision})
        facts = {
            "measured_us": round(sum([micros.get(kernel, 0.0) for kernel in batch.kernels]), 2),
            "kernels": len(batch.kernels),
        }
        results = [{"node": node} for other in sharers for node in recording.decisions[other].produced]
        decisions[batch.decision] = replace(
            decision, facts={**decision.facts, **facts, **({"computed_with": results} if results else {})}
        )
    return decisions
