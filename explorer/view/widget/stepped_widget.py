"""Widget that stands at a step of a recording: its traits ``step`` and ``stage`` follow each other.

A step is the last of its stage and the place before the first of the next. So ``stage`` cannot be derived from ``step``
alone: both are traits, and the one that is set pulls the other along only where they would disagree.
"""

from __future__ import annotations

from typing import Any

import traitlets

from explorer.record import Recording
from explorer.view.replay.steps import stage_ends, step_at
from explorer.view.widget.newest_wins import NewestWins


class SteppedWidget(NewestWins):
    """Widget of a recording at one of its steps; both traits are checked here, before they reach the browser."""

    step = traitlets.Int(0).tag(sync=True)
    """0 is the recorded graph; then each decision, each kernel that the order picks, each kernel of the run"""
    stage = traitlets.Unicode("").tag(sync=True)
    """name of the stage of the step; setting it shows the stage as a whole, its result, at the step before its first"""

    def __init__(self, recording: Recording, position: int, **traits: Any) -> None:
        self._step_through(recording)
        step = step_at(recording, position)
        stage = recording.stages[self._stage_at(step)].name if recording.stages else ""
        super().__init__(step=step, stage=stage, **traits)

    def _step_through(self, recording: Recording) -> None:
        self.recording, self._ends = recording, stage_ends(recording)

    @property
    def last_step(self) -> int:
        """The number of the last step."""
        return self._ends[-1] if self._ends else 0

    @property
    def is_whole(self) -> bool:
        """Whether the stage is shown as a whole: its result, before the first step into it."""
        return self.has_stage(self.stage) and self.step == self._start_of(self.stage)

    def has_stage(self, name: str) -> bool:
        """Whether there is a stage of that name."""
        return any(stage.name == name for stage in self.recording.stages)

    def show_whole(self, name: str) -> None:
        """Show a stage as a whole."""
        # Both before either is observed: one alone would pull the other to its own place.
        with self.hold_trait_notifications():
            self.stage, self.step = name, self._start_of(name)

    def _start_of(self, name: str) -> int:
        """Return the last step before a stage."""
        index = [stage.name for stage in self.recording.stages].index(name)
        return self._ends[index - 1] if index else 0

    def place_of(self, step: int) -> tuple[str, int]:
        """Return the name of the stage of a step, and the step's number in it."""
        index = self._stage_at(step)
        return self.recording.stages[index].name, step - (self._ends[index - 1] if index else 0)

    def step_at(self, stage: str, place: int) -> int:
        """Return the step with this number in a stage, or its last one; the current step if there is no such stage."""
        names = [row.name for row in self.recording.stages]
        if stage not in names:
            return self.step
        index = names.index(stage)
        return min((self._ends[index - 1] if index else 0) + place, self._ends[index])

    @traitlets.validate("step")
    def _check_step(self, proposal: dict[str, Any]) -> int:
        step: int = proposal["value"]
        if not 0 <= step <= self.last_step:
            raise traitlets.TraitError(f"step {step} is outside this recording: it has steps 0 to {self.last_step}")
        return step

    @traitlets.validate("stage")
    def _check_stage(self, proposal: dict[str, Any]) -> str:
        stage: str = proposal["value"]
        names = [row.name for row in self.recording.stages]
        if not self.has_stage(stage) and (stage or names):
            raise traitlets.TraitError(f"stage {stage!r} is not one of {', '.join(names) or 'none'}")
        return stage

    @traitlets.observe("step")
    def _follow_step(self, change: dict[str, Any]) -> None:
        if self.recording.stages and not self._is_inside(change["new"], self.stage):
            self.stage = self.recording.stages[self._stage_at(change["new"])].name

    @traitlets.observe("stage")
    def _follow_stage(self, change: dict[str, Any]) -> None:
        if change["new"] and not self._is_inside(self.step, change["new"]):
            self.step = self._start_of(change["new"])

    def _stage_at(self, step: int) -> int:
        return next(index for index, end in enumerate(self._ends) if step <= end)

    def _is_inside(self, step: int, name: str) -> bool:
        """Whether a stage of that name contains the step; as a whole it shares the last step before it."""
        for row, start, end in zip(self.recording.stages, [0, *self._ends], self._ends, strict=False):
            if row.name == name and start <= step <= end:
                return True
        return False
