"""Interrupts: Ctrl-C ends the command line at any moment, and waits while some functions run.

This module is imported first, before everything that takes long to import. While modules are imported, and when the
work is over, the command line's process ends at once with one line and exit status 130, since nothing is half done;
during the work the interrupt is a KeyboardInterrupt, so that files and terminal are left in order. Outside the command
line nothing is changed.

A KeyboardInterrupt may arise between any two instructions: between the making of a file and the line that would remove
it on failure, for instance. Signal masks would protect such lines, but Windows has none, and another thread would take
the signal; instead the handler of ``Postponed`` looks at the stack: if one of the protected functions is on it, the
interrupt is noted, and raised once they have returned.
"""

from __future__ import annotations

# The library's signal wraps these functions, to give handlers of C names: 15 µs for each handler of Python.
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
_AGAIN = 0.002
"""seconds until an interrupt that nothing could raise is sent once more"""


def _is_command_line() -> bool:
    """Whether this process is the program ``explorer`` or ``python -m explorer``."""
    program = sys.argv[0] if getattr(sys, "argv", None) else ""
    if program == "-m":
        # sys.argv[0] is only -m while the package is being imported
        return "explorer" in sys.orig_argv
    return os.path.basename(program) in ("explorer", "explorer.exe")


def leave(number: int = 0, frame: FrameType | None = None) -> None:
    """Print a line and end the process at once."""
    with contextlib.suppress(OSError):
        os.write(2, LINE.encode())
    # no clean-up: imports are half done, and exit handlers of half-imported modules may fail
    os._exit(STATUS)


class Interrupts:
    """Record of an interrupt, kept even if other code swallows its KeyboardInterrupt."""

    came = False

    def raise_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Note the interrupt and raise KeyboardInterrupt in the main thread."""
        self.came = True
        raise KeyboardInterrupt

    def deliver_again(self, unraisable: Any) -> None:
        """Send an interrupt again that arrived where nothing can be raised, as in a finalizer."""
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _thread.start_new_thread(_send, ())
        else:
            sys.__unraisablehook__(unraisable)


def interrupt_behind(error: BaseException, handled: BaseException | None) -> KeyboardInterrupt | None:
    """Return the interrupt during whose handling an error was raised; None without one.

    Libraries may turn an interrupt into another error (NumPy does while it reads the format of a buffer).
    ``handled`` is the exception that was being handled before, from which on nothing is looked at.
    """
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and at is not handled and id(at) not in seen:
        if isinstance(at, KeyboardInterrupt):
            return at
        seen.add(id(at))
        # "raise … from" says what an error means; without it Python notes what was being handled.
        at = at.__cause__ or at.__context__
    return None


def _send() -> None:
    time.sleep(_AGAIN)  # until the main thread has left the place where nothing can be raised
    os.kill(os.getpid(), signal.SIGINT)


@contextmanager
def raised() -> Iterator[Interrupts]:
    """Deliver interrupts as KeyboardInterrupt inside the block, unless the program handles interrupts itself."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = signal.getsignal(signal.SIGINT)
    # a program that embeds explorer and handles Ctrl-C itself keeps its handler
    if before not in (signal.default_int_handler, leave):
        yield interrupts
        return
    hook = sys.unraisablehook
    sys.unraisablehook = interrupts.deliver_again
    signal.signal(signal.SIGINT, interrupts.raise_interrupt)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
        sys.unraisablehook = hook


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
        before = _signal.getsignal(_signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(before):
            self._before = before
            _signal.signal(_signal.SIGINT, self._interrupt)

    def release(self) -> None:
        """Give interrupts back to the handler that had them, which gets the one that waited."""
        # In one statement: an interrupt between two of them would be handed on twice, or not at all.
        before, self._before = self._before, None
        if before is not None:
            _signal.signal(_signal.SIGINT, before)
            came, self._came = self._came, False
            if came:
                before(_signal.SIGINT, None)

    def deliver(self) -> None:
        """Hand on the interrupt that waits, if one does, to the handler that had interrupts before."""
        if self._came:
            self._came = False
            self._before(_signal.SIGINT, None)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        # the handler runs between two instructions of the main thread, and is given the interrupted frame
        at = frame
        while at is not None:
            if at.f_code in self._codes:
                self._came = True
                return
            at = at.f_back
        self._before(number, frame)


if (
    _is_command_line()
    and threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, leave)
