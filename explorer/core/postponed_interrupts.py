"""Interrupts that wait: while some functions run, Ctrl-C is noted, and it is raised once they have returned.

A KeyboardInterrupt may arise between any two instructions: between the making of a file and the line that would remove
it on failure, for instance. Signal masks would protect such lines, but Windows has none, and another thread would take
the signal; instead the handler looks at the stack: if one of the protected functions is on it, the interrupt waits.
"""

from __future__ import annotations

# The library's signal wraps these functions, to give handlers of C names: 15 µs for each handler of Python.
import _signal as signal  # type: ignore[import-not-found]  # of CPython and PyPy alike
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


class Postponed:
    """The interrupts of a block of work, from ``hold()`` to ``release()``: those that come in some functions wait.

    Elsewhere in the block they are what they were before it. Python interrupts its main thread alone, so that in
    another one, or where the program ignores interrupts, there is nothing to hold.
    """

    def __init__(self, *functions: Callable[..., Any]) -> None:
        self._codes = {function.__code__ for function in functions}
        self._before: Any = None
        self._came = False

    def hold(self) -> None:
        """Let interrupts wait from now on."""
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(before):
            self._before = before
            signal.signal(signal.SIGINT, self._interrupt)

    def release(self) -> None:
        """Give interrupts back to the handler that had them, which gets the one that waited."""
        # In one statement: an interrupt between two of them would be handed on twice, or not at all.
        before, self._before = self._before, None
        if before is not None:
            signal.signal(signal.SIGINT, before)
            came, self._came = self._came, False
            if came:
                before(signal.SIGINT, None)

    def deliver(self) -> None:
        """Hand on the interrupt that waits, if one does, to the handler that had interrupts before."""
        if self._came:
            self._came = False
            self._before(signal.SIGINT, None)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        # the handler runs between two instructions of the main thread, and is given the interrupted frame
        at = frame
        while at is not None:
            if at.f_code in self._codes:
                self._came = True
                return
            at = at.f_back
        self._before(number, frame)
