"""Files that nobody vouches for, opened to be read: regular files only, looked at once they are open."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO

from explorer.core.errors import FileError
from explorer.core.memory_budget import budget

_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
"""a pipe that nobody writes to is opened at once, and refused"""


def opened(
    path: str | os.PathLike[str],
    fix: str = "correct the path",
    *,
    what: str = "the file",
    within: Path | None = None,
) -> IO[bytes]:
    """A regular file, open to be read; what is checked of it is checked of the file that is open, not of its name.

    ``within`` is a folder, its path resolved, that the file lies in, wherever symbolic links lead at this moment.
    Raises FileError for anything else, which names ``what`` is to be read, and ``fix`` tells how to mend it.
    """
    shown = printable(path)
    try:
        descriptor = os.open(path, _FLAGS)
    except (OSError, ValueError) as error:  # the latter for names that no file can have
        raise FileError(f"{what} cannot be read: {_reason(error)}", path=shown, fix=fix) from error
    try:
        held = os.fstat(descriptor)
        if not stat.S_ISREG(held.st_mode):
            raise FileError(
                f"{what} cannot be read: this is {_kind(held.st_mode)}",
                path=shown,
                rule="what is read must be a regular file",
                fix=fix,
            )
        if within is not None and not _lies_in(path, held, within):
            raise FileError(
                f"{what} cannot be read: this leads out of the folder",
                path=shown,
                rule=f"the file must lie in {printable(within)}",
                fix=fix,
            )
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def content(path: str | os.PathLike[str], fix: str = "correct the path", *, what: str = "the file") -> bytes:
    """All bytes of a regular file; raises FileError for one of more than ``budget.text``, before any is read."""
    with opened(path, fix, what=what) as file:
        size = os.fstat(file.fileno()).st_size
        if size > budget.text:
            raise FileError(
                f"the file has {size:,} bytes",
                path=printable(path),
                rule=f"a file that is read as a whole must have at most {budget.text:,} bytes: budget.text",
                fix=f"ex.budget.text = {size}",
            )
        try:
            return file.read(size)
        except OSError as error:
            raise FileError(f"{what} cannot be read: {_reason(error)}", path=printable(path), fix=fix) from error


def printable(path: str | os.PathLike[str]) -> str:
    """A path as text that can be written anywhere: what is no character is escaped, what is long is cut."""
    text = os.fspath(path)
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_SHOWN = 1024


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }  # fmt: skip
    return kinds.get(stat.S_IFMT(mode), "no regular file")


def _lies_in(path: str | os.PathLike[str], held: os.stat_result, folder: Path) -> bool:
    """Whether the file that is open is the one that its name leads to inside a folder."""
    real = Path(os.path.realpath(path))
    try:
        return real.is_relative_to(folder) and os.path.samestat(os.lstat(real), held)
    except OSError:
        return False
