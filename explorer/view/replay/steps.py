"""Steps of a view: each stage has a step per decision, followed by a step per kernel that it orders or runs."""

from __future__ import annotations

from explorer.record import Recording, Stage
from explorer.record.errors import OperandError, UnknownNameError


def stage_kernels(recording: Recording) -> list[list[int]]:
    """Return for each stage the kernels that it orders or runs, in step order."""
    picked = list(range(len(recording.schedule.kernels))) if recording.schedule else []
    ran = [step.kernel for step in recording.run.steps] if recording.run else []
    kernels = {"order": picked, "run": ran}
    return [kernels.get(stage.kind, []) for stage in recording.stages]


def predictable(recording: Recording) -> list[str]:
    """Return the names of the stages that a reader can predict.

    They record gradients, fuse nodes, order kernels, or assign buffers.
    """
    fusing = {recording.decisions[group.decision].stage for group in recording.groups if group.kind == "kernel"}
    kernels_planned = recording.schedule.kernels if recording.schedule else ()
    has_buffers = any(kernel.buffer is not None and kernel.buffer >= 0 for kernel in kernels_planned)
    stages = zip(recording.stages, stage_kernels(recording), strict=True)
    return [
        stage.name
        for number, (stage, kernels) in enumerate(stages)
        if number in fusing
        or (stage.kind == "order" and kernels)
        or (stage.kind == "record" and _has_gradients(recording))
        or (stage.kind == "memory" and has_buffers)
    ]


def _has_gradients(recording: Recording) -> bool:
    """Return whether the gradient of an operation was recorded."""
    nodes = recording.nodes
    return any(
        nodes.kind[row.node] != "leaf"
        and nodes.born[row.node] < 0
        and any(nodes.born[each] < 0 for each in row.backward)
        for row in recording.gradients
    )


def stage_ends(recording: Recording) -> list[int]:
    """Return the last step of each stage; the next stage's steps begin after it."""
    ends: list[int] = []
    last = 0
    for stage, kernels in zip(recording.stages, stage_kernels(recording), strict=True):
        last += stage.last - stage.first + len(kernels)
        ends.append(last)
    return ends


def step_at(recording: Recording, position: int) -> int:
    """Return the step after a number of decisions; raise OperandError if there are fewer."""
    if position == 0:
        return 0
    for stage, start in zip(recording.stages, [0, *stage_ends(recording)], strict=False):
        if stage.first < position <= stage.last:
            return start + position - stage.first
    raise OperandError(
        f"position {position} is outside this recording",
        rule=f"it has positions 0 to {recording.end}",
        fix=f"position={min(max(position, 0), recording.end)}",
    )


def stage_start(recording: Recording, name: str) -> int:
    """Return the last step before a stage, at which it is shown as a whole; raise UnknownNameError for other names."""
    names = [stage.name for stage in recording.stages]
    if name not in names:
        raise UnknownNameError(name, kind="stage", known=names)
    return [0, *stage_ends(recording)][names.index(name)]


def whole_stage(recording: Recording, step: int, name: str) -> Stage | None:
    """Return the named stage if the step is the last one before it, at which the stage is shown as a whole."""
    later = zip(recording.stages[1:], stage_ends(recording), strict=False)
    return next((stage for stage, start in later if stage.name == name and step == start), None)


def position_at(recording: Recording, step: int, name: str = "") -> int:
    """Return the number of decisions taken at a step; kernels that a stage orders or runs follow its decisions.

    At the last step before the named stage, that stage is shown as a whole, with all its decisions taken.
    """
    if (whole := whole_stage(recording, step, name)) is not None:
        return whole.last
    stages, starts = recording.stages, [0, *stage_ends(recording)]
    for stage, start, end in zip(stages, starts, starts[1:], strict=False):
        if step <= end:
            return stage.first + min(step - start, stage.last - stage.first)
    return recording.end
