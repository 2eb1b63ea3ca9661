"""Locks of files between threads and processes, where the system and the file system have them."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_NONE = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF}


def locked(handle: int, *, wait: bool = False) -> bool | None:
    """Lock an open file for its opener alone, until it is closed; None where the file system has no locks.

    Without ``wait`` it is False at once where another opener holds the lock.
    """
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NONE:
            return None
        raise
    return True


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Inside, nobody else is inside for the same path: no thread and, where there are locks, no process.

    ``path`` is the name of a file that stands there meanwhile, and is gone afterwards; a killed holder's is taken over.
    """
    flags = os.O_RDONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    while True:
        handle = os.open(path, flags, 0o666)
        if locked(handle, wait=True) is None or os.fstat(handle).st_nlink:
            break
        os.close(handle)  # its holder has removed it: another one of this name may be there by now
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)
        os.close(handle)
