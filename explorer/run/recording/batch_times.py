"""Measured times of batches, next to the estimates by which the pass batch decided.

A reader of "batched" sees what the planner expected; with these facts also whether it was right. They are added when
the recording is made, since decisions are taken before anything has run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.record.batches import Batch
from explorer.record.rows import Step


def batch_timings(
    batches: Sequence[Batch], produced: Sequence[tuple[int, ...]], steps: Sequence[Step]
) -> dict[int, dict[str, Any]]:
    """Return the measured facts of the decisions that created batches, by the number of the decision.

    ``produced`` are the nodes that each decision produced, ``steps`` the measured kernels. ``measured_us`` is the time
    of the kernels that computed a batch, ``kernels`` their number; ``computed_with`` lists the results of other batches
    that share these kernels. Members were not run one by one, so that ``separate_us`` remains an estimate.
    """
    micros: dict[int, float] = {}
    for step in steps:
        micros[step.kernel] = micros.get(step.kernel, 0.0) + step.micros
    # A kernel may compute several batches, which fusion joined: its time counts for each of them, and their facts name
    # one another.
    sharing: dict[int, list[int]] = {}
    for batch in batches:
        for kernel in batch.kernels:
            sharing.setdefault(kernel, []).append(batch.decision)
    measured: dict[int, dict[str, Any]] = {}
    for batch in batches:
        if not batch.kernels:
            continue
        facts = measured[batch.decision] = {
            "measured_us": round(sum([micros.get(kernel, 0.0) for kernel in batch.kernels]), 2),
            "kernels": len(batch.kernels),
        }
        sharers = sorted({other for kernel in batch.kernels for other in sharing[kernel]} - {batch.decision})
        results = [{"node": node} for other in sharers for node in produced[other]]
        if results:
            facts["computed_with"] = results
    return measured
