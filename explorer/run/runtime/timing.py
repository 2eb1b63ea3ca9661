"""Timing: start and end of each kernel of a run, and its thread.

Executors measure times in every run, with one or two clock readings per kernel. A run need not be repeated if its times
are needed later.
"""

from __future__ import annotations

from typing import NamedTuple


class Note(NamedTuple):
    """Remark of an executor about a run, which is shown with the times of the kernels."""

    text: str
    """the remark as a sentence"""
    counts: dict[str, int]


class Timing(NamedTuple):
    """Start and end of each kernel, by kernel index, in ns of one clock, and the conditions of the run."""

    began: list[int]
    ended: list[int]
    threads: list[int]
    """thread of each kernel: 0 is the calling thread, others are workers; empty if the calling thread ran all
    kernels
    """
    warm: bool = False
    """whether the program had already run before"""
    watched: bool = False
    """whether an observer summarized values between kernels"""
    notes: tuple[Note, ...] = ()
    """remarks that are shown with the stage of the run"""
    of_work: bool = True
    """whether kernels ended when their work was finished; on a GPU, they end when the work is started, unless the run
    waits for each kernel
    """

    @property
    def nanoseconds(self) -> int:
        """Duration of the run in nanoseconds."""
        return max(self.ended) - min(self.began) if self.began else 0
