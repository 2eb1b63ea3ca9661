"""Interrupts: Ctrl-C ends the command-line program at any moment, but is postponed while protected functions run.

This module is imported before all slow imports. During the imports and after the work, an interrupt ends the
command-line process immediately with one line and exit status 130. During the work, it raises KeyboardInterrupt, so
that files and the terminal are restored. Other programs are not affected.

A KeyboardInterrupt may occur between any two instructions, for instance after a file was created, but before the
``try`` block that would remove it on failure was entered. Signal masks do not help, because Windows has none and other
threads would receive the signal. Instead, the handler of ``Postponed`` inspects the stack. If a protected function is
on it, the interrupt is recorded and raised once the function has returned.
"""

from __future__ import annotations

# The signal module wraps these functions to convert handlers to names, which takes 15 µs per Python handler.
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
        # sys.argv[0] is "-m" only while the package is being imported
        return "explorer" in sys.orig_argv
    return os.path.basename(program) in ("explorer", "explorer.exe")


def leave(number: int = 0, frame: FrameType | None = None) -> None:
    """Signal handler that prints a line and ends the process immediately."""
    with contextlib.suppress(OSError):
        os.write(2, LINE.encode())
    # skip exit handlers, which may fail in partly imported modules
    os._exit(STATUS)


class Interrupts:
    """Record of an interrupt, kept even if other code suppresses the KeyboardInterrupt."""

    came = False

    def raise_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Signal handler that records the interrupt and raises KeyboardInterrupt in the main thread."""
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

    Some libraries convert interrupts to other errors, as NumPy does while it parses a buffer format. ``handled``, the
    exception that was already being handled, is ignored together with its causes.
    """
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and current is not handled and id(current) not in visited:
        if isinstance(current, KeyboardInterrupt):
            return current
        visited.add(id(current))
        # "raise … from" sets the cause; otherwise Python records the exception being handled
        current = current.__cause__ or current.__context__
    return None


def _send() -> None:
    time.sleep(_RESEND_DELAY)  # once the main thread has left the code that ignores exceptions
    os.kill(os.getpid(), signal.SIGINT)


@contextmanager
def raised() -> Iterator[Interrupts]:
    """Deliver interrupts as KeyboardInterrupt in the block, unless the program has its own handler."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    previous = signal.getsignal(signal.SIGINT)
    # A program that uses explorer and handles Ctrl-C itself keeps its handler.
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
    """Postponement of interrupts in protected functions, between ``hold()`` and ``release()``.

    All other functions are interrupted as usual. Nothing is postponed in other threads, because Python interrupts only
    the main thread. The same applies if the program ignores interrupts.
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
        """Restore the previous handler, and pass it the postponed interrupt, if any."""
        # One statement, because an interrupt between two would be handled twice or not at all.
        previous, self._previous = self._previous, None
        if previous is not None:
            _signal.signal(_signal.SIGINT, previous)
            has_arrived, self._has_arrived = self._has_arrived, False
            if has_arrived:
                previous(_signal.SIGINT, None)

    def deliver(self) -> None:
        """Pass the postponed interrupt, if any, to the previous handler."""
        if self._has_arrived:
            self._has_arrived = False
            self._previous(_signal.SIGINT, None)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        # Python calls handlers in the main thread between two instructions, and passes the interrupted frame.
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
