"""Terminal output of the command line, with control characters from files and names made visible.

Inside ``terminal()``, standard output and standard error show characters that would control the terminal, or reorder
its text, as escapes. Messages of argparse, warnings, logs and tracebacks go through them as well; escaping at each
place that prints would miss those.
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
"""moves to the start of the line and erases it"""


class Outlet(io.TextIOBase):
    """Standard stream that shows control characters instead of passing them on.

    Text is dropped once the reader has left, and always for a stream that was closed from the start.
    """

    def __init__(self, stream: TextIO | None, name: str = "") -> None:
        """Wrap a stream; if it has a name, OSErrors of failed writes contain it."""
        self._stream, self._name = stream, name

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has an attribute that can be written
        """The encoding of the stream; characters that it lacks are written as escapes."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str, /) -> int:
        """Write text with everything but line ends made visible."""
        self._pass_on("\n".join(map(visible, text.split("\n"))))
        return len(text)

    def draw_over(self, text: str) -> None:
        """Replace the last drawn line; an empty string removes it."""
        self._pass_on(_OVER + visible(text))
        self.flush()

    def flush(self) -> None:
        """Flush the stream; raise OSError if it cannot be written."""
        with self._kept():
            # Python flushes the buffer, maybe long after the stream is closed.
            if self._stream is not None and not self._stream.closed:
                self._stream.flush()

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def writable(self) -> bool:
        """Whether the stream can be written to: always."""
        return True

    def fileno(self) -> int:
        """The file descriptor of the stream."""
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return self._stream.fileno()

    def _pass_on(self, text: str) -> None:
        with self._kept():
            if self._stream is not None:
                self._stream.write(text.encode(self.encoding, "backslashreplace").decode(self.encoding))

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """End the stream, not the command, when the reader leaves; other failures get the stream's name."""
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
        with contextlib.suppress(OSError, ValueError):  # a stream without a file has no buffer
            # buffered text goes to the null device, since Python's flush at exit would otherwise fail again
            number = os.open(os.devnull, os.O_WRONLY)
            os.dup2(number, stream.fileno() if stream is not None else number)
            os.close(number)


@contextmanager
def terminal() -> Iterator[Outlet]:
    """Replace standard output and standard error by outlets inside ``with``; return the latter."""
    before = sys.stdout, sys.stderr
    if None in before:
        _fill_gaps()
    answers, errors = Outlet(before[0], "standard output"), Outlet(before[1])
    sys.stdout, sys.stderr = answers, errors
    try:
        yield errors
    finally:
        sys.stdout, sys.stderr = before
        with contextlib.suppress(OSError):  # already reported, if possible
            answers.flush()
        errors.flush()


def _fill_gaps() -> None:
    """Open the null device in place of closed standard streams, so that no file gets their descriptors."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free descriptor


def say(line: str) -> None:
    """Print one line of an answer."""
    print(visible(line))


def tell(text: str) -> None:
    """Print an answer of several lines."""
    sys.stdout.write(text)


def report(line: str) -> None:
    """Print a line about the work done to standard error, where it does not mix with the answer."""
    # In one piece, since an interrupt between a line and its end would print its message on the same line.
    print(f"{visible(line)}\n", end="", file=sys.stderr)


def complain(error: BaseException, *, debug: bool = False) -> None:
    """Print an error; with ``debug`` also its traceback."""
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
