"""Observers of a run: what executors call around each kernel, outside of its time."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Observer of kernels; both methods are called on the thread that runs the kernel."""

    def before_kernel(self, index: int) -> None:
        """Called before a kernel runs: its operands are valid now, and may be overwritten by it."""

    def after_kernel(self, index: int) -> None:
        """Called after a kernel has run: its result is valid now."""
