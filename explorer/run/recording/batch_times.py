"""What batches took in a run, as facts of the decisions that made them, beside the estimates that they were made on."""

from __future__ import annotations

from dataclasses import replace

from explorer.record import Decision, Recording, Run
from explorer.record.batches import batches


def add_batch_timings(recording: Recording, run: Run) -> list[Decision]:
    """The decisions; those of batches with ``measured_us``, the time of the kernels that computed what they made.

    ``computed_with`` names the results of other batches that the same kernels computed, ``kernels`` says how many
    these are. The members were not run one by one: ``separate_us`` stays an estimate.
    """
    found = batches(recording)
    if not found:
        return recording.decisions
    micros: dict[int, float] = {}
    for step in run.steps:
        micros[step.kernel] = micros.get(step.kernel, 0.0) + step.micros
    sharing: dict[int, list[int]] = {}
    for batch in found:
        for kernel in batch.kernels:
            sharing.setdefault(kernel, []).append(batch.decision)
    decisions = list(recording.decisions)
    for batch in found:
        if not batch.kernels:
            continue
        own = decisions[batch.decision]
        others = sorted({other for kernel in batch.kernels for other in sharing[kernel]} - {batch.decision})
        facts = {
            "measured_us": round(sum([micros.get(kernel, 0.0) for kernel in batch.kernels]), 2),
            "kernels": len(batch.kernels),
        }
        results = [{"node": node} for other in others for node in recording.decisions[other].produced]
        decisions[batch.decision] = replace(
            own, facts={**own.facts, **facts, **({"computed_with": results} if results else {})}
        )
    return decisions
