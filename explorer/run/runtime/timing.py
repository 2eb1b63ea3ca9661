"""Timing: when each kernel of a run began and ended, and on which thread."""

from __future__ import annotations

from typing import NamedTuple


class Timing(NamedTuple):
    """By the number of the kernel, in ns of one clock."""

    began: list[int]
    ended: list[int]
    threads: list[int]
    """0 is the thread that asked for the run, others are workers; empty where it ran all kernels"""
