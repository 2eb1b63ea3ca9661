"""Observers of a run: executors call them before and after each kernel, outside the kernel's measured time.

Value summaries, comparisons with a reference and the log of a net are observers. If there is no observer, an executor
makes no calls, so observers cost nothing when they are not used.
"""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Observer of kernels; both methods are called on the thread that runs the kernel."""

    def before_kernel(self, index: int) -> None:
        """Called before a kernel runs. The kernel's operands are valid now, and the kernel may overwrite them."""

    def after_kernel(self, index: int) -> None:
        """Called after a kernel has run. The kernel's result is valid now."""
