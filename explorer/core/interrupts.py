"""Interrupts: Ctrl-C ends the command-line program at any moment, but is postponed while protected functions run.

This module is imported first, before all slow imports. During imports and after the work is done, no work is
incomplete, so the command-line process exits immediately with one line and exit status 130. During the work the
interrupt is a KeyboardInterrupt, so files and terminal are restored. Other programs are not affected.

A KeyboardInterrupt may occur between any two instructions. For instance, a file has been created, but the ``try`` block
that would remove the file on failure has not been entered yet. Signal masks would protect such lines, but Windows has
none, and another thread would receive the signal. Instead the handler of ``Postponed`` inspects the stack. If a
protected function is on the stack, the interrupt is recorded, and raised once the function has returned.
"""

from __future__ import annotations

# The standard library's signal module wraps these functions to convert handlers to names, which takes 15 µs for each
# Python handler.
import _signal  # type: ignore[import-not-found]  # of CPython and PyPy alike
import _thread
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

STATUS = 130
LINE = "explorer: interrupted\n"
_RESEND_DELAY = 0.002
"""seconds until an interrupt that could not be raised is sent again"""


def _is_command_line() -> bool:
    """Return whether this process is the program ``explorer`` or ``python -m explorer``."""
    program = sys.argv[0] if getattr(sys, "argv", None) else ""
    if program == "-m":
        # sys.argv[0] is only -m while the package is being imported
        return "explorer" in sys.orig_argv
    return os.path.basename(program) in ("explorer", "explorer.exe")


def leave(number: int = 0, frame: FrameType | None = None) -> None:
    """Signal handler: print a line and end the process immediately."""
    with contextlib.suppress(OSError):
        os.write(2, LINE.encode())
    # no clean-up: exit handlers of partly imported modules may fail
    os._exit(STATUS)


class Interrupts:
    """Record of an interrupt, which is kept even if other code suppresses the KeyboardInterrupt."""

    came = False

    def raise_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Record the interrupt and raise KeyboardInterrupt in the main thread."""
        self.came = True
        raise KeyboardInterrupt

    def deliver_again(self, unraisable: Any) -> None:
        """Send an interrupt again if its exception was ignored, for instance in a finalizer."""
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _thread.start_new_thread(_send, ())
        else:
            sys.__unraisablehook__(unraisable)


def interrupt_behind(error: BaseException, handled: BaseException | None) -> KeyboardInterrupt | None:
    """Return the interrupt whose handling raised ``error``, or None.

    Libraries may convert an interrupt to another error (NumPy does so while it parses a buffer format). ``handled`` is
    the exception that was being handled before. That exception and its causes are ignored.
    """
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and current is not handled and id(current) not in visited:
        if isinstance(current, KeyboardInterrupt):
            return current
        visited.add(id(current))
        # "raise … from" sets the cause of an error; otherwise Python records the exception being handled.
        current = current.__cause__ or current.__context__
    return None


def _send() -> None:
    time.sleep(_RESEND_DELAY)  # until the main thread has left the code that ignores exceptions
    os.kill(os.getpid(), signal.SIGINT)


@contextmanager
def raised() -> Iterator[Interrupts]:
    """Deliver interrupts as KeyboardInterrupt inside the block, unless the program has its own interrupt handler."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    previous = signal.getsignal(signal.SIGINT)
    # Another program that uses explorer and handles Ctrl-C itself keeps its handler.
    if previous not in (signal.default_int_handler, leave):
        yield interrupts
        return
    hook = sys.unraisablehook
    sys.unraisablehook = interrupts.deliver_again
    signal.signal(signal.SIGINT, interrupts.raise_interrupt)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, previous)
        sys.unraisablehook = hook


class Postponed:
    """Handling of interrupts between ``hold()`` and ``release()``: interrupts in protected functions are postponed.

    Other functions are interrupted as before. Python interrupts only its main thread, so nothing is postponed in other
    threads. Nothing is postponed either if the program ignores interrupts.
    """

    def __init__(self, *functions: Callable[..., Any]) -> None:
        self._codes = {function.__code__ for function in functions}
        self._previous: Any = None
        self._has_arrived = False

    def hold(self) -> None:
        """Postpone interrupts from now on."""
        previous = _signal.getsignal(_signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(previous):
            self._previous = previous
            _signal.signal(_signal.SIGINT, self._interrupt)

    def release(self) -> None:
        """Restore the previous handler, and pass it the postponed interrupt, if there is one."""
        # In one statement, because an interrupt between two statements would be handled twice or not at all.
        previous, self._previous = self._previous, None
        if previous is not None:
            _signal.signal(_signal.SIGINT, previous)
            has_arrived, self._has_arrived = self._has_arrived, False
            if has_arrived:
                previous(_signal.SIGINT, None)

    def deliver(self) -> None:
        """Pass the postponed interrupt, if there is one, to the previous handler."""
        if self._has_arrived:
            self._has_arrived = False
            self._previous(_signal.SIGINT, None)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        # Python calls a handler between two instructions of the main thread, and passes the interrupted frame.
        current = frame
        while current is not None:
            if current.f_code in self._codes:
                self._has_arrived = True
                return
            current = current.f_back
        self._previous(number, frame)


if (
    _is_command_line()
    and threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, leave)
