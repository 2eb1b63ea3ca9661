"""What the closed box of a batch says: the shapes of its members and of what was made of them, and what that gains."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.record import Recording
from explorer.record.reasons import micros_text
from explorer.view.model.labels import TYPE, fit, short_type


def batch_lines(recording: Recording, decisions: Sequence[int]) -> list[str]:
    """Say ``1,000 × 10 f32 → 1000×10 f32``, and ``7.14 ms instead of 56.2 ms, estimated``."""
    made = [recording.decisions[decision] for decision in decisions]
    last, lines = made[-1], []
    if last.subjects and last.produced:
        before, after = (
            short_type(recording, recording.nodes.type[ends[0]]) for ends in (last.subjects, last.produced)
        )
        lines.append(fit(f"{len(last.subjects):,} × {before} → {after}", TYPE))
    if all("together_us" in decision.facts and "separate_us" in decision.facts for decision in made):
        together = micros_text(sum(decision.facts["together_us"] for decision in made))
        separate = micros_text(sum(decision.facts["separate_us"] for decision in made))
        lines.append(fit(f"{together} instead of {separate}, estimated", TYPE))
    return lines
