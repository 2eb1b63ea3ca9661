"""File locks between threads and processes, where the system and the file system support them.

``flock`` belongs to the open file, so that two threads of a process exclude each other too, and a killed process loses
its locks; ``lockf`` would belong to the process. Network file systems may have neither: then nothing is locked, and
saving works as before, without protection from a second writer.
"""

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
    """Lock an open file exclusively until it is closed; None where the file system has no locks.

    Without ``wait`` the result is False at once if another opener holds the lock.
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
    """Hold a lock on a path: no other thread and, where locks exist, no other process enters meanwhile.

    ``path`` is the name of a lock file that exists meanwhile and is removed afterwards; one left by a killed process is
    reused.
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
