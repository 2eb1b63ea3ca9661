"""Observers of a run: what executors call around each kernel, outside of its time."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Whatever looks at kernels as they run; both methods are called on the thread that runs the kernel."""

    def before_kernel(self, index: int) -> None:
        """Take note that the kernel of this number begins: its operands are there, and may be written over."""

    def after_kernel(self, index: int) -> None:
        """Take note that the kernel of this number has run: its result is there."""
