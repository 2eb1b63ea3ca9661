"""Observers of a run: executors call them before and after each kernel, outside the kernel's measured time.

Value summaries, comparisons with a reference and net logs are observers. Without an observer, executors make no calls.
"""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Observer of kernels; both methods are called on the thread that runs the kernel."""

    def before_kernel(self, index: int) -> None:
        """Called before a kernel runs: its operands are valid now, and the kernel may overwrite them."""

    def after_kernel(self, index: int) -> None:
        """Called after a kernel has run: its result is valid now."""
