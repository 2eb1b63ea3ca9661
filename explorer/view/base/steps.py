"""Steps of a view: one for each decision, each kernel that the order picks and each kernel of the run."""

from __future__ import annotations

from explorer.record import Recording


def stage_ends(recording: Recording) -> list[int]:
    """Return the last step of every stage, over decisions, picked kernels and kernels of the run."""
    ends: list[int] = []
    last = 0
    for stage in recording.stages:
        last += stage.last - stage.first
        if stage.kind == "order":
            last += len(recording.schedule.kernels) if recording.schedule else 0
        elif stage.kind == "run":
            last += len(recording.run.steps) if recording.run else 0
        ends.append(last)
    return ends
