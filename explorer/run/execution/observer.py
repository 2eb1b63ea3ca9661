"""Observers of a run: executors call them around each kernel, outside of its time."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Observer of kernels; both methods are called on the thread that runs the kernel."""

    def before_kernel(self, index: int) -> None:
        """React to a kernel that is about to run: its operands are valid now, and may be overwritten by it."""

    def after_kernel(self, index: int) -> None:
        """React to a kernel that has run: its result is valid now."""
