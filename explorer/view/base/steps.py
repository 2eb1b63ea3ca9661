"""The steps of a view: each decision, each kernel that the order picks, each kernel that ran."""

from __future__ import annotations

from explorer.record import Recording


def stage_ends(recording: Recording) -> list[int]:
    """The last step of every stage: its decisions, the kernels that the order picked, the kernels that ran."""
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
