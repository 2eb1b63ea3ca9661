"""Steps of a view: in each stage one for every decision, then one for every kernel that the stage picks or runs."""

from __future__ import annotations

from explorer.record import Recording


def stage_kernels(recording: Recording) -> list[list[int]]:
    """Return for every stage the kernels that it picks or runs, in the order of its steps."""
    picked = list(range(len(recording.schedule.kernels))) if recording.schedule else []
    ran = [step.kernel for step in recording.run.steps] if recording.run else []
    kernels = {"order": picked, "run": ran}
    return [kernels.get(stage.kind, []) for stage in recording.stages]


def stage_ends(recording: Recording) -> list[int]:
    """Return the last step of every stage; the steps of a stage begin after the last one of the stage before it."""
    ends: list[int] = []
    last = 0
    for stage, kernels in zip(recording.stages, stage_kernels(recording), strict=True):
        last += stage.last - stage.first + len(kernels)
        ends.append(last)
    return ends


def position_at(recording: Recording, step: int) -> int:
    """Return the number of decisions taken at a step; kernels that a stage picks or runs follow its decisions."""
    start = 0
    for stage, end in zip(recording.stages, stage_ends(recording), strict=True):
        if step <= end:
            return stage.first + min(step - start, stage.last - stage.first)
        start = end
    return recording.end
