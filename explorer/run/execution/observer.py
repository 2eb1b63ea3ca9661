"""Observers of a run, which executors call before and after each kernel, outside its measured time.

Value summaries, comparisons with a reference and the log of a net are observers. Without an observer an executor makes
no calls, so that observability costs nothing.
"""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Observer of kernels; both methods are called on the thread that runs the kernel."""

    def before_kernel(self, index: int) -> None:
        """Handle a kernel that is about to run; its operands are valid now, and the kernel may overwrite them."""

    def after_kernel(self, index: int) -> None:
        """Handle a kernel that has run; its result is valid now."""
