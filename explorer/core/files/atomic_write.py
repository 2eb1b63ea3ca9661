"""Atomic replacement of files: the only code with which explorer writes to disk.

New content is written to a scratch file next to the target and flushed to disk. The scratch file is then renamed to the
target in one step, so readers see either the old or the new content, even if the process is killed. Scratch files are
locked while they are written; the next save removes unlocked ones, which killed processes left behind.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from explorer.core.errors import FileError
from explorer.core.interrupts import Postponed

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


_SCRATCH = "explorer~"
_MAX_NAME_LENGTH = 40
"""maximum number of characters of the target's name in a scratch file's name"""
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_FIXES = {
    errno.ENOENT: "make its folder first: mkdir -p {folder}",
    errno.ENOTDIR: "name a folder: {folder} is a file, or lies in one",
    errno.ENAMETOOLONG: "give it a shorter name",
    errno.ELOOP: "remove the link that leads back to itself",
    errno.EROFS: "write to another folder: this disk is read-only",
}


class Replacement:
    """New content for a file, for use in a ``with`` block.

    The content is written to ``file``, which then replaces the target or is discarded. If the path is a symbolic link,
    the linked file is replaced. An existing file keeps its mode and, if permitted, its owner. Interrupts during the
    creation or removal of the scratch file are postponed, so that no scratch file remains.
    """

    file: IO[bytes]
    target: Path
    scratch: Path
    lasting = False
    """whether a reader may already use the scratch file, so that it must not be removed"""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._interrupts = Postponed(
            Replacement.__enter__, Replacement.__exit__, _AtomicFile.__enter__, _AtomicFile.__exit__
        )

    def __enter__(self) -> Self:
        """Open a locked scratch file; raise FileError, without changing anything, if the target is not writable."""
        self._interrupts.hold()
        try:
            self._open()
        except BaseException:
            self._interrupts.release()
            raise
        try:
            self._interrupts.deliver()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the scratch file, unless it has already replaced the target."""
        try:
            self._discard()
        finally:
            self._interrupts.release()

    def _open(self) -> None:
        try:
            self.target = Path(os.path.realpath(self.path))
            existing = _status(self.target)
            if existing is not None and not stat.S_ISREG(existing.st_mode):
                description = "a folder" if stat.S_ISDIR(existing.st_mode) else "a device, a pipe or a link to itself"
                raise FileError(
                    f"this is {description}", path=str(self.path), rule="a file to be written must be a regular file",
                    fix="name a file in it" if stat.S_ISDIR(existing.st_mode) else "name another file",
                )  # fmt: skip
            # A new file gets the default mode under the user's umask. A file that replaces an existing one is private
            # until it gets that file's mode.
            self.scratch, handle = _open_scratch(self.target, 0o666 if existing is None else 0o600)
        except (OSError, ValueError) as error:
            if isinstance(error, FileError):
                raise
            raise unwritable(self.path, error) from error
        try:
            if existing is not None:
                _copy_ownership(handle, existing)
            self.file = io.BufferedWriter(_Scratch(handle, self.path))
        except BaseException:
            os.close(handle)
            self.scratch.unlink(missing_ok=True)
            raise

    def complete(self) -> None:
        """Flush the content to disk; raise FileError if the disk is full."""
        self.file.flush()
        try:
            os.fsync(self.file.fileno())
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems have no fsync
                raise unwritable(self.path, error) from error

    def replace(self) -> None:
        """Rename the complete scratch file to the target."""
        try:
            # Windows cannot rename an open file; elsewhere, hold the lock until the rename, so that nobody removes the
            # file.
            if os.name == "nt":
                self.file.close()
            os.replace(self.scratch, self.target)
        except OSError as error:
            raise unwritable(self.path, error) from error
        self.file.close()

    def _discard(self) -> None:
        with contextlib.suppress(
            FileError
        ):  # closing flushes buffered content, which may fail again; the first failure has already been raised
            self.file.close()
        if not self.file.raw.closed:  # type: ignore[attr-defined]  # a BufferedWriter's
            self.file.raw.close()  # type: ignore[attr-defined]  # as above
        if not self.lasting:
            self.scratch.unlink(missing_ok=True)


class _AtomicFile:
    """Context that replaces the target if its block succeeds, and discards the new content if it fails."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._new = Replacement(path)

    def __enter__(self) -> IO[bytes]:
        new = self._new.__enter__()
        try:
            remove_abandoned(new.target)
        except BaseException:
            new.__exit__()
            raise
        return new.file

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        try:
            if error_type is None:
                self._new.complete()
                self._new.replace()
        finally:
            self._new.__exit__()


def replacing(path: str | os.PathLike[str]) -> AbstractContextManager[IO[bytes]]:
    """Open a new file that replaces ``path`` if the block succeeds, and is removed if it fails.

    If the file cannot be written, raises FileError and leaves the old file intact.
    """
    return _AtomicFile(path)


def write_file(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Replace the content of a file. Strings are encoded as UTF-8, with unpaired surrogates written as escapes."""
    with replacing(path) as file:
        file.write(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise the FileError of ``replacing`` if a file cannot be written, before time is spent on its content."""
    with Replacement(path):
        pass


def scratch_files(target: Path) -> list[Path]:
    """Return a target's scratch files, of live and killed writers, sorted by name."""
    pattern = re.compile(re.escape(_prefix(target)) + r"[0-9a-f]{16}\." + re.escape(_SCRATCH))
    try:
        names = os.listdir(target.parent)
    except OSError:
        return []
    return [target.with_name(name) for name in sorted(names) if pattern.fullmatch(name)]


def remove_abandoned(target: Path) -> None:
    """Remove a target's unlocked scratch files, which killed processes left behind."""
    for scratch in scratch_files(target):
        try:
            # Only a live writer holds the lock. O_NONBLOCK, because opening a pipe of that name would block.
            handle = os.open(scratch, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        except OSError:  # already removed, or another user's file
            continue
        try:
            if locked(handle):
                with contextlib.suppress(OSError):  # another user's file, which does not affect the save
                    scratch.unlink(missing_ok=True)
        finally:
            os.close(handle)


def unwritable(path: Path, error: OSError | ValueError) -> FileError:
    """Return the error for a target that cannot be written."""
    code = error.errno if isinstance(error, OSError) else None
    if code in _FULL:
        return FileError(
            f"there is no room for it: {_reason(error)}", path=str(path),
            rule="the disk must have room for the new file and the old one, because files are replaced as a whole",
            fix="free some space, or write to another disk",
        )  # fmt: skip
    fix = _FIXES.get(code or 0, "make its folder writable, or write to another one")
    return FileError(
        f"it cannot be written: {_reason(error)}", path=str(path),
        rule="the folder must exist and be writable, because files are replaced as a whole",
        fix=fix.format(folder=path.parent),
    )  # fmt: skip


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


class _Scratch(io.FileIO):
    """Open scratch file whose write errors name the target, because users do not know the scratch file."""

    def __init__(self, handle: int, path: Path) -> None:
        super().__init__(handle, "wb")
        self._path = path

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise unwritable(self._path, error) from error


def _prefix(target: Path) -> str:
    return f".{target.name[:_MAX_NAME_LENGTH]}."


def _open_scratch(target: Path, mode: int) -> tuple[Path, int]:
    """Create and lock a scratch file under an unused name; return its path and file descriptor."""
    # O_EXCL, so as not to follow a link that somebody created under this name.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    while True:
        scratch = target.with_name(f"{_prefix(target)}{secrets.token_hex(8)}.{_SCRATCH}")
        handle = os.open(scratch, flags, mode)
        # Until the new file is locked, another process may consider it abandoned and remove it.
        if locked(handle) is not False and os.fstat(handle).st_nlink:
            return scratch, handle
        os.close(handle)  # removed as abandoned before it was locked
        with contextlib.suppress(FileNotFoundError):
            scratch.unlink()


def _status(target: Path) -> os.stat_result | None:
    try:
        return os.lstat(target)
    except FileNotFoundError:
        return None


def _copy_ownership(handle: int, existing: os.stat_result) -> None:
    """Copy an existing file's mode and, if permitted, its owner and group to an open file."""
    if not hasattr(os, "fchmod"):
        return
    current = os.fstat(handle)
    if (current.st_uid, current.st_gid) != (existing.st_uid, existing.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(handle, existing.st_uid, existing.st_gid)
    with contextlib.suppress(PermissionError):  # some file systems have no modes
        os.fchmod(handle, stat.S_IMODE(existing.st_mode) & 0o777)


if sys.platform != "win32":
    import fcntl

_WITHOUT_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF}


def locked(handle: int, *, wait: bool = False) -> bool | None:
    """Lock an open file exclusively until it is closed; return None if the file system has no locks.

    Unless ``wait`` is True, return False immediately if another process holds the lock.
    """
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _WITHOUT_LOCKS:
            return None
        raise
    return True


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold an exclusive lock in the block, against other threads and, if the system has locks, other processes.

    ``path`` names the lock file, which is removed after the block. A lock file left by a killed process is reused.
    """
    flags = os.O_RDONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    while True:
        handle = os.open(path, flags, 0o666)
        if locked(handle, wait=True) is None or os.fstat(handle).st_nlink:
            break
        os.close(handle)  # the previous owner has removed this file, and a new one of the same name may exist
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)
        os.close(handle)
