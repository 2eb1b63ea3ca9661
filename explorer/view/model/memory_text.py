"""Memory of a plan in words: the peak and its parts, and the most that is live, the same in every text and picture.

The *peak* is the memory that a run allocates: the arena, results that were asked for, and working memory. Memory that
is *live* while a kernel runs is a part of it. The parts of the peak are largest at different moments, so that no
moment may need all.
"""

from __future__ import annotations

from explorer.record import Recording
from explorer.record.reasons import bytes_text

PARTS = {"peak_arena": "arena", "peak_results": "results asked for", "peak_working": "working memory"}
"""counts that add up to the peak → their names"""


def peak_text(recording: Recording) -> str:
    """Return the peak as a sum: ``peak 96 KB = arena 48 KB + results asked for 32 KB + working memory 16 KB``."""
    assert recording.schedule is not None
    counts = memory_counts(recording)
    parts = " + ".join([f"{name} {bytes_text(counts[part])}" for part, name in PARTS.items() if counts.get(part)])
    return f"peak {bytes_text(recording.schedule.peak)}{f' = {parts}' if parts else ''}"


def most_live_text(recording: Recording) -> str:
    """Return the most bytes that are live at one moment, and when: ``most live 80 KB, in kernel 4``; "" without any."""
    assert recording.schedule is not None
    lives = [kernel.live for kernel in recording.schedule.kernels]
    most = max(lives, default=0)
    return f"most live {bytes_text(most)}, in kernel {lives.index(most) + 1:,}" if most else ""


def memory_counts(recording: Recording) -> dict[str, int]:
    """Return the counts of the stage that places results in memory; none where no stage does."""
    return next((stage.counts for stage in recording.stages if stage.kind == "memory"), {})
