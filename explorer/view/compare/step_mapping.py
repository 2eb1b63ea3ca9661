"""Mapping of steps between two recordings, which synchronizes two views.

Two plans of one program seldom have the same steps, since passes decide differently and kernels change order. So each
step has a partner on the other side, computed once for both directions, and stepping never waits for a search.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from explorer.record import Recording
from explorer.record.compare.comparison import Comparison
from explorer.view.replay.steps import stage_ends, stage_kernels

Tie: TypeAlias = Literal["nodes", "steps", "off"]
"""How two views are synchronized: "nodes" shows the same decision, or the kernel that computes the same nodes; "steps"
shows the step with the same number in the same stage."""
TIES: tuple[Tie, ...] = get_args(Tie)


class StageSteps:
    """Steps of a recording, by stage."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.ends = stage_ends(recording)
        self.starts = [0, *self.ends[:-1]]
        self.keys = _numbered([stage.name for stage in recording.stages])
        self.number = {key: number for number, key in enumerate(self.keys)}
        self.kernels = stage_kernels(recording)
        """for each stage, the kernels that it orders or runs, in the order of steps"""
        self._offsets = [{kernel: offset for offset, kernel in enumerate(kernels)} for kernels in self.kernels]

    def first_kernel(self, stage: int) -> int:
        """Return the last step of a stage before its first kernel."""
        row = self.recording.stages[stage]
        return self.starts[stage] + row.last - row.first

    def kernel_step(self, stage: int, kernel: int) -> int:
        """Return the step of a stage at which a kernel is ordered or run, or −1."""
        offset = self._offsets[stage].get(kernel, -1)
        return self.first_kernel(stage) + offset + 1 if offset >= 0 else -1


def _numbered(names: list[str]) -> list[tuple[str, int]]:
    """Return each name with the number of equal names before it, since a compiler may run a pass several times."""
    counts: dict[str, int] = {}
    keys = []
    for name in names:
        counts[name] = counts.get(name, -1) + 1
        keys.append((name, counts[name]))
    return keys


def by_steps(own: StageSteps, others: StageSteps) -> list[int]:
    """Map each step to the step with the same number in the same stage, or to the end of the last common stage.

    The only step of a recording without decisions and kernels maps to the last step of the other.
    """
    if own.ends[-1:] in ([], [0]):
        return [*(others.ends[-1:] or [0])]
    mapped = [0]
    reached, missing = 0, False
    for number, key in enumerate(own.keys):
        other = others.number.get(key, -1)
        count = own.ends[number] - own.starts[number]
        if other >= 0:
            start, reached = others.starts[other], others.ends[other]
            mapped += [min(start + offset, reached) for offset in range(1, count + 1)]
        else:
            mapped += [reached] * count
        missing = other < 0 if count else missing
    if missing:  # the remaining stages have no steps here, so all of them are complete
        mapped[-1] = reached
    return mapped


def by_nodes(own: StageSteps, others: StageSteps, same: dict[int, int], follows: tuple[int, ...]) -> list[int]:
    """Map each step to the step of the same decision or same kernel, or else to the previous step's partner.

    ``same`` maps decisions, and ``follows`` kernels, to the other side. The last steps of a stage map to each other.
    """
    mapped = by_steps(own, others)
    for number, stage in enumerate(own.recording.stages):
        other = others.number.get(own.keys[number], -1)
        if other < 0 or own.ends[number] == own.starts[number]:
            continue
        row = others.recording.stages[other]
        reached, step_here = others.starts[other], own.starts[number]
        for decision in range(stage.first, stage.last):
            partner = same.get(decision, -1)
            if row.first <= partner < row.last:
                reached = others.starts[other] + partner - row.first + 1
            step_here += 1
            mapped[step_here] = reached
        kernels = own.kernels[number]
        if kernels:
            reached = max(reached, others.first_kernel(other))
        for kernel in kernels:
            step = others.kernel_step(other, follows[kernel]) if follows[kernel] >= 0 else -1
            reached = step if step >= 0 else reached
            step_here += 1
            mapped[step_here] = reached
        mapped[own.ends[number]] = others.ends[other]
    return mapped


def partners(comparison: Comparison) -> dict[str, tuple[list[int], list[int]]]:
    """Return for each mode of synchronization the partners of the steps of both recordings, before and after."""
    before, after = StageSteps(comparison.before), StageSteps(comparison.after)
    back = {other: number for number, other in comparison.decisions.items()}
    return {
        "nodes": (
            by_nodes(before, after, comparison.decisions, comparison.follows[0]),
            by_nodes(after, before, back, comparison.follows[1]),
        ),
        "steps": (by_steps(before, after), by_steps(after, before)),
    }
