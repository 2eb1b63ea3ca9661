"""The one place where text leaves the command line: no character of a file or a name commands the terminal.

Inside ``terminal()`` standard output and standard error show what a terminal would obey, or what would reorder its
text, as escapes; so do the messages of argparse, warnings, logs and tracebacks, which write there by themselves.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from explorer.core.errors import ExplorerError
from explorer.record.escape import visible

_OVER = "\r\x1b[K"
"""back to the beginning of the line, and erase it"""


class Outlet(io.TextIOBase):
    """A standard stream that shows control characters instead of passing them on.

    What a reader who has left would have read is dropped, and so is all of a stream that was closed from the start.
    """

    def __init__(self, stream: TextIO | None, name: str = "") -> None:
        """Wrap a stream; where it has a name, an OSError names it when it cannot be written to any longer."""
        self._stream, self._name = stream, name

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has an attribute that can be written
        """The encoding of the stream; what it lacks is written as escapes."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str, /) -> int:
        """Write a text, with all but the ends of its lines made visible."""
        self._pass_on("\n".join(map(visible, text.split("\n"))))
        return len(text)

    def draw_over(self, text: str) -> None:
        """Draw a line over the one that was drawn last; an empty one takes it away."""
        self._pass_on(_OVER + visible(text))
        self.flush()

    def flush(self) -> None:
        """Hand on what is held back; raises OSError where it cannot be written."""
        with self._kept():
            if self._stream is not None:
                self._stream.flush()

    def isatty(self) -> bool:
        """Whether someone looks on."""
        return self._stream is not None and self._stream.isatty()

    def writable(self) -> bool:
        """Whether it can be written to: always."""
        return True

    def fileno(self) -> int:
        """The number of the stream's file."""
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return self._stream.fileno()

    def _pass_on(self, text: str) -> None:
        with self._kept():
            if self._stream is not None:
                self._stream.write(text.encode(self.encoding, "backslashreplace").decode(self.encoding))

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Inside, a reader who leaves ends the stream, not the command; other failures name it."""
        try:
            yield
        except BrokenPipeError:
            self._give_up()
        except OSError as error:
            self._give_up()
            if self._name:
                raise OSError(error.errno, error.strerror, self._name) from None

    def _give_up(self) -> None:
        stream, self._stream = self._stream, None
        with contextlib.suppress(OSError, ValueError):  # of a stream without a file nothing is held back
            number = os.open(os.devnull, os.O_WRONLY)
            os.dup2(number, stream.fileno() if stream is not None else number)
            os.close(number)


@contextmanager
def terminal() -> Iterator[Outlet]:
    """Inside, standard output and standard error are outlets; gives the latter."""
    before = sys.stdout, sys.stderr
    if None in before:
        _fill_gaps()
    answers, errors = Outlet(before[0], "standard output"), Outlet(before[1])
    sys.stdout, sys.stderr = answers, errors
    try:
        yield errors
    finally:
        sys.stdout, sys.stderr = before
        with contextlib.suppress(OSError):  # told already, where there is something to tell
            answers.flush()
        errors.flush()


def _fill_gaps() -> None:
    """Have nothing that is opened later take the number of a standard stream that was closed from the start."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def say(line: str) -> None:
    """Print one line of an answer."""
    print(visible(line))


def tell(text: str) -> None:
    """Print an answer of several lines."""
    sys.stdout.write(text)


def report(line: str) -> None:
    """Print a line about what was done, where it does not mix with what was asked for."""
    print(visible(line), file=sys.stderr)


def complain(error: BaseException, *, debug: bool = False) -> None:
    """Print what is wrong, and where it happened for who mends explorer."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    print(f"explorer: {_message(error)}", file=sys.stderr)


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and not isinstance(error, ExplorerError) and error.filename is not None:
        return f"{visible(os.fsdecode(error.filename))}: {error.strerror}"
    if isinstance(error, (ExplorerError, OSError)):
        return str(error)
    return (
        f"unexpected {type(error).__name__}: {visible(str(error))}\n"
        "  this is a fault of explorer itself; --debug shows where"
    )
