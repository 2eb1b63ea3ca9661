"""Where one of two views stands when the other takes a step."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from explorer.record import Recording
from explorer.record.compare.comparison import Comparison
from explorer.view.base.steps import stage_ends

Tie: TypeAlias = Literal["nodes", "steps", "off"]
"""Views that are tied by nodes stand at the same decision, and at the kernel that computes the same nodes; by steps,
at equally many steps of the same stage."""
TIES: tuple[Tie, ...] = get_args(Tie)


class StageSteps:
    """The steps of a recording, by its stages."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.ends = stage_ends(recording)
        self.starts = [0, *self.ends[:-1]]
        self.number = {stage.name: number for number, stage in reversed(list(enumerate(recording.stages)))}
        self.picked = next((n for n, stage in enumerate(recording.stages) if stage.kind == "order"), -1)
        self.ran = {step.kernel: at for at, step in enumerate(recording.run.steps)} if recording.run else {}

    def first_kernel(self, stage: int) -> int:
        """The last step of a stage before its first kernel."""
        row = self.recording.stages[stage]
        return self.starts[stage] + row.last - row.first

    def kernel_step(self, stage: int, kernel: int) -> int:
        """The step of a stage at which a kernel is picked, or runs; −1 where it does neither."""
        if self.recording.stages[stage].kind == "run":
            return self.first_kernel(stage) + self.ran[kernel] + 1 if kernel in self.ran else -1
        return self.first_kernel(stage) + kernel + 1 if stage == self.picked else -1

    def kernels(self, stage: int) -> list[int]:
        """The kernels that a stage picks, or runs, in the order of its steps."""
        if self.recording.stages[stage].kind == "run":
            return list(self.ran)
        schedule = self.recording.schedule
        return list(range(len(schedule.kernels))) if schedule and stage == self.picked else []


def by_steps(own: StageSteps, others: StageSteps) -> list[int]:
    """For each step, the one at the same place of the stage of that name; without it, the end of the one before."""
    found = [0]
    here, missing = 0, False
    for number, stage in enumerate(own.recording.stages):
        other = others.number.get(stage.name, -1)
        count = own.ends[number] - own.starts[number]
        if other >= 0:
            start, here = others.starts[other], others.ends[other]
            found += [min(start + place, here) for place in range(1, count + 1)]
        else:
            found += [here] * count
        missing = other < 0 if count else missing
    if missing:  # what follows has no step of its own, and is over too
        found[-1] = here
    return found


def by_nodes(own: StageSteps, others: StageSteps, same: dict[int, int], follows: tuple[int, ...]) -> list[int]:
    """For each step, the one of the same decision, or of the kernel that computes the same; without it, the one before.

    ``same`` are decisions, and ``follows`` kernels of the other side. The last step of a stage is at its last one.
    """
    found = by_steps(own, others)
    for number, stage in enumerate(own.recording.stages):
        other = others.number.get(stage.name, -1)
        if other < 0 or own.ends[number] == own.starts[number]:
            continue
        row = others.recording.stages[other]
        here, at = others.starts[other], own.starts[number]
        for decision in range(stage.first, stage.last):
            partner = same.get(decision, -1)
            if row.first <= partner < row.last:
                here = others.starts[other] + partner - row.first + 1
            at += 1
            found[at] = here
        kernels = own.kernels(number)
        if kernels:
            here = max(here, others.first_kernel(other))
        for kernel in kernels:
            step = others.kernel_step(other, follows[kernel]) if follows[kernel] >= 0 else -1
            here = step if step >= 0 else here
            at += 1
            found[at] = here
        found[own.ends[number]] = others.ends[other]
    return found


def partners(comparison: Comparison) -> dict[str, tuple[list[int], list[int]]]:
    """For each way to tie two views: the step after for every step before, and the step before for every step after."""
    before, after = StageSteps(comparison.before), StageSteps(comparison.after)
    back = {other: number for number, other in comparison.decisions.items()}
    return {
        "nodes": (
            by_nodes(before, after, comparison.decisions, comparison.follows[0]),
            by_nodes(after, before, back, comparison.follows[1]),
        ),
        "steps": (by_steps(before, after), by_steps(after, before)),
    }
