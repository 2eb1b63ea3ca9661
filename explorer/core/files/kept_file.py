"""Files that stay open as long as their weights may be read. Parts are read by offset and never memory-mapped: if a
mapped file is truncated, the process crashes, whereas a read raises an error (assets/decisions/0014)."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from explorer.core.errors import FileError
from explorer.core.files.open_untrusted import opened, printable

_MAX_READ = 1 << 30
"""maximum number of bytes of one read: Linux returns at most 2³¹"""


class KeptFile:
    """Regular file that stays open as long as it is referenced; reading fails once another program has modified it."""

    def __init__(self, path: str | os.PathLike[str], fix: str = "correct the path", *, what: str = "the file") -> None:
        """Open the file; raise FileError unless it is a regular file."""
        self.path = Path(path)
        self._fix, self._what = fix, what
        self.file: IO[bytes] = opened(path, fix, what=what)
        """the open file, for reading its header; forked processes share its file position"""
        weakref.finalize(self, self.file.close)
        self._stamp = self._status()

    @property
    def size(self) -> int:
        """Size in bytes when the file was opened."""
        return self._stamp[0]

    def part(self, first: int, size: int) -> NDArray[np.uint8]:
        """Return ``size`` bytes from offset ``first``; raise FileError if the file has changed since it was opened."""
        self.check(first, size)
        array = np.empty(size, np.uint8)
        remaining = memoryview(array.data)
        while remaining:
            count = self._read_into(remaining[:_MAX_READ], first)
            if not count:
                raise self._changed()
            remaining, first = remaining[count:], first + count
        self.check()
        array.setflags(write=False)
        return array

    def check(self, first: int = 0, size: int = 0) -> None:
        """Raise FileError if the file has changed since it was opened, or is shorter than ``first + size`` bytes."""
        if self._status() != self._stamp or first + size > self.size:
            raise self._changed()

    def close(self) -> None:
        """Close the file; parts can no longer be read."""
        self.file.close()

    def _read_into(self, buffer: memoryview[Any], first: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self.file.fileno(), [buffer], first)
        # Windows has no preadv: open the file again, because this read needs its own file position.
        with opened(self.path, self._fix, what=self._what) as file:
            file.seek(first)
            return file.readinto(buffer)  # type: ignore[attr-defined, no-any-return]  # a buffered reader has it

    def _status(self) -> tuple[int, int]:
        status = os.fstat(self.file.fileno())
        return status.st_size, status.st_mtime_ns

    def _changed(self) -> FileError:
        size = self._status()[0]
        difference = f"it has {size:,} bytes, where it had {self.size:,}" if size != self.size else "it was written to"
        return FileError(
            f"{self._what} has changed since it was opened: {difference}",
            path=printable(self.path),
            rule="the file must stay as it is while its model is open",
            fix="open the model again",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.path, self._fix, self._what, self._stamp)


def _reopen(path: Path, fix: str, what: str, stamp: tuple[int, int]) -> KeptFile:
    """Reopen a kept file in another process; reading fails if the file has changed since ``stamp`` was taken."""
    file = KeptFile(path, fix, what=what)
    file._stamp = stamp
    return file
