"""Timing: start and end of each kernel of a run, and its thread.

Executors measure every run, with one or two clock readings per kernel, so no run is repeated just for its times.
"""

from __future__ import annotations

from typing import NamedTuple


class Note(NamedTuple):
    """Remark of an executor about a run, shown with the kernel times."""

    text: str
    """the remark as a sentence"""
    counts: dict[str, int]


class Timing(NamedTuple):
    """Start and end of each kernel, by kernel index, in ns of one clock, and the conditions of the run."""

    began: list[int]
    ended: list[int]
    threads: list[int]
    """thread of each kernel: 0 is the calling thread; empty if it ran all kernels"""
    warm: bool = False
    """whether the program had already run before"""
    watched: bool = False
    """whether an observer summarized values between kernels"""
    notes: tuple[Note, ...] = ()
    """remarks that are shown with the stage of the run"""
    of_work: bool = True
    """whether times include the kernels' work; on a GPU, only if the run waits for each kernel"""

    @property
    def nanoseconds(self) -> int:
        """Duration of the run in nanoseconds."""
        return max(self.ended) - min(self.began) if self.began else 0
