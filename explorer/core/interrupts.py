"""Interrupts of the command line: Ctrl-C ends it at any moment with one line and exit status 130.

This module is imported first, before everything that takes long to import. While modules are imported, and when the
work is over, the process ends at once, since nothing is half done; during the work the interrupt is a
KeyboardInterrupt, so that files and terminal are left in order. Outside the command line nothing is changed.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
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

    Libraries may turn an interrupt into an error of their own (NumPy does while it reads the format of a buffer).
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


if (
    _is_command_line()
    and threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, leave)
