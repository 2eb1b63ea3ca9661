"""Terminal output with control characters from files and names made visible.

Inside ``terminal()``, standard output and standard error escape characters that would control the terminal or reorder
its text. The streams are wrapped, so messages of argparse, warnings, logs and tracebacks are escaped too.
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
"""control sequence that moves to the start of the line and erases the line"""


class Outlet(io.TextIOBase):
    """Standard stream that shows control characters instead of passing them on.

    Text is discarded if the stream is closed, or if the reader has closed the pipe.
    """

    def __init__(self, stream: TextIO | None, name: str = "") -> None:
        """Wrap ``stream``; ``name``, if given, is added to the OSError of a failed write."""
        self._stream, self._name = stream, name

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed declares a writable attribute
        """Encoding of the stream; characters outside it are written as escapes."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str, /) -> int:
        """Write text with visible escapes in place of control characters, except line ends."""
        self._pass_on("\n".join(map(visible, text.split("\n"))))
        return len(text)

    def draw_over(self, text: str) -> None:
        """Replace the last drawn line; an empty string removes it."""
        self._pass_on(_OVER + visible(text))
        self.flush()

    def flush(self) -> None:
        """Flush the stream; raise OSError if it cannot be written."""
        with self._kept():
            # Python may flush the buffer long after the stream is closed.
            if self._stream is not None and not self._stream.closed:
                self._stream.flush()

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def writable(self) -> bool:
        """Return True: the stream can always be written to."""
        return True

    def fileno(self) -> int:
        """Return the file descriptor of the stream; raise UnsupportedOperation without a stream."""
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return self._stream.fileno()

    def _pass_on(self, text: str) -> None:
        with self._kept():
            if self._stream is not None:
                self._stream.write(text.encode(self.encoding, "backslashreplace").decode(self.encoding))

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Close the stream silently if the reader has closed the pipe; name the stream in other errors."""
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
        with contextlib.suppress(OSError, ValueError):  # the stream may have no file descriptor
            # To the null device, because Python's flush at exit would fail again.
            number = os.open(os.devnull, os.O_WRONLY)
            os.dup2(number, stream.fileno() if stream is not None else number)
            os.close(number)


@contextmanager
def terminal() -> Iterator[Outlet]:
    """Replace standard output and standard error by Outlets inside ``with``; yield the one for standard error."""
    before = sys.stdout, sys.stderr
    if None in before:
        _fill_gaps()
    output, errors = Outlet(before[0], "standard output"), Outlet(before[1])
    sys.stdout, sys.stderr = output, errors
    try:
        yield errors
    finally:
        sys.stdout, sys.stderr = before
        with contextlib.suppress(OSError):  # already reported, if possible
            output.flush()
        errors.flush()


def _fill_gaps() -> None:
    """Open the null device in place of closed standard streams, whose descriptors other files would otherwise get."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # uses the lowest free descriptor


def print_line(line: str) -> None:
    """Print one line of a result."""
    print(visible(line))


def print_text(text: str) -> None:
    """Print a result of several lines."""
    sys.stdout.write(text)


def print_note(line: str) -> None:
    """Print a note to standard error, separate from the result."""
    # Written together with the line end, so the message of an interrupt starts on a new line.
    print(f"{visible(line)}\n", end="", file=sys.stderr)


def print_error(error: BaseException, *, debug: bool = False) -> None:
    """Print an error; with ``debug`` also print its traceback."""
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
        "  this is a bug in explorer; --debug shows the traceback"
    )
