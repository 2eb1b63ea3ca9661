"""Observers of a run: executors call them around each kernel, outside of its time.

Summaries of values, comparisons with a reference and the log of a net are observers. An executor without one makes no
call for it, so that runs pay nothing for being observable.
"""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Observer of kernels; both methods are called on the thread that runs the kernel."""

    def before_kernel(self, index: int) -> None:
        """React to a kernel that is about to run: its operands are valid now, and may be overwritten by it."""

    def after_kernel(self, index: int) -> None:
        """React to a kernel that has run: its result is valid now."""
