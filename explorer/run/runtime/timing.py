"""Timing: start and end of each kernel of a run, and its thread.

Executors measure times in every run, with one or two clock readings per kernel, so that a run need not be repeated when
its times are needed.
"""

from __future__ import annotations

from typing import NamedTuple


class Note(NamedTuple):
    """Remark of an executor about a run, next to the times of its kernels."""

    text: str
    """a sentence"""
    counts: dict[str, int]


class Timing(NamedTuple):
    """Start and end of each kernel, by index, in ns of one clock, and the conditions of the run."""

    began: list[int]
    ended: list[int]
    threads: list[int]
    """thread of each kernel: 0 is the caller, others are workers; empty if the caller ran all kernels"""
    warm: bool = False
    """whether the program had run before"""
    watched: bool = False
    """whether an observer summarized values between kernels"""
    notes: tuple[Note, ...] = ()
    """shown with the stage of the run"""
    of_work: bool = True
    """whether kernels ended with their work; on a GPU they end when work was started, unless the run waited for each"""

    @property
    def nanoseconds(self) -> int:
        """Duration of the run."""
        return max(self.ended) - min(self.began) if self.began else 0
