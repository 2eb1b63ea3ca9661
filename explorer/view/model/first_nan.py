"""The first value of a run that contains a NaN: where looking for the cause begins.

A NaN spreads to everything that is computed from it, so that most values of a spoiled run contain one; only the first
says where it came from.
"""

from __future__ import annotations

from explorer.record import Recording


def first_nan(recording: Recording) -> int:
    """Return the first node whose value contains a NaN, or −1: leaves come first, then the order of the run."""
    run, schedule = recording.run, recording.schedule
    if run is None or schedule is None:
        return -1
    leaves = (node for node in sorted(run.values) if recording.nodes.kind[node] in ("leaf", "input"))
    computed = (node for step in run.steps for node in schedule.kernels[step.kernel].nodes)
    spoiled = (node for nodes in (leaves, computed) for node in nodes if node in run.values and run.values[node].nan)
    return next(spoiled, -1)
