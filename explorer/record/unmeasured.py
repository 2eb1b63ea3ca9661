"""Recordings without measurements: the same on every run and machine, for outputs that notebooks keep.

A notebook that is run again must not change where the program has not: times would differ in every cell. Values are
results of the program, and stay.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.record.recording import Recording


def unmeasured(recording: Recording) -> Recording:
    """Return a recording without its run and the times in its decisions; its values stay, as values of nodes."""
    if recording.run is None:
        return recording
    return replace(
        recording,
        run=None,
        stages=[stage for stage in recording.stages if stage.kind != "run"],
        decisions=[
            replace(decision, facts={name: fact for name, fact in decision.facts.items() if name != "measured_us"})
            if "measured_us" in decision.facts
            else decision
            for decision in recording.decisions
        ],
        leaf_values={**recording.leaf_values, **recording.run.values},
    )
