"""Files kept open as long as their weights may be requested: parts are read by offset, never memory-mapped.

If a mapped file is truncated, the process ends, whereas a read raises an error (assets/decisions/0014).
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from explorer.core.errors import FileError
from explorer.core.files.open_untrusted import opened, printable

_PART = 1 << 30
"""maximum bytes per read: Linux returns at most 2³¹"""


class KeptFile:
    """A regular file, open until nothing refers to it, whose parts are read for as long as nobody writes to it."""

    def __init__(self, path: str | os.PathLike[str], fix: str = "correct the path", *, what: str = "the file") -> None:
        """Open the file; raises FileError unless it is a regular file."""
        self.path = Path(path)
        self._fix, self._what = fix, what
        self.file: IO[bytes] = opened(path, fix, what=what)
        """the open file, to read its header from; its position is shared with forked processes"""
        weakref.finalize(self, self.file.close)
        self._stamp = self._now()

    @property
    def size(self) -> int:
        """Bytes that the file had when it was opened."""
        return self._stamp[0]

    def part(self, first: int, size: int) -> NDArray[np.uint8]:
        """Return ``size`` bytes from ``first``; raises FileError where the file has changed since it was opened."""
        self.check(first, size)
        array = np.empty(size, np.uint8)
        rest = memoryview(array.data)
        while rest:
            count = self._read_into(rest[:_PART], first)
            if not count:
                raise self._changed()
            rest, first = rest[count:], first + count
        self.check()
        array.setflags(write=False)
        return array

    def check(self, first: int = 0, size: int = 0) -> None:
        """Raise FileError where the file has changed since it was opened, or is too short for a part."""
        if self._now() != self._stamp or first + size > self.size:
            raise self._changed()

    def close(self) -> None:
        """Close the file; no more parts can be read."""
        self.file.close()

    def _read_into(self, buffer: memoryview[Any], first: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self.file.fileno(), [buffer], first)
        # on Windows, which has no fork: a position of this call's own
        with opened(self.path, self._fix, what=self._what) as file:
            file.seek(first)
            return file.readinto(buffer)  # type: ignore[attr-defined, no-any-return]  # a buffered reader has it

    def _now(self) -> tuple[int, int]:
        status = os.fstat(self.file.fileno())
        return status.st_size, status.st_mtime_ns

    def _changed(self) -> FileError:
        size = self._now()[0]
        became = f"it has {size:,} bytes, where it had {self.size:,}" if size != self.size else "it was written to"
        return FileError(
            f"{self._what} has changed since it was opened: {became}",
            path=printable(self.path),
            rule="the file must stay as it is while its model is open",
            fix="open the model again",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.path, self._fix, self._what, self._stamp)


def _again(path: Path, fix: str, what: str, stamp: tuple[int, int]) -> KeptFile:
    """Return a kept file in another process; a part is refused where it is another one by now."""
    file = KeptFile(path, fix, what=what)
    file._stamp = stamp
    return file
