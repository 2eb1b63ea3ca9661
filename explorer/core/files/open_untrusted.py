"""Opening of untrusted files for reading: regular files only, checked once they are open.

Model files and the paths in them are untrusted: a path may refer to an endless device, to a pipe without a writer, or
to a file outside the model's folder. All readers open files with this module.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path
from typing import IO

from explorer.core.errors import FileError
from explorer.core.memory_budget import budget
from explorer.record.escape import visible

_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
"""O_NONBLOCK, so that opening a pipe without a writer returns at once and the pipe can be rejected"""


def opened(
    path: str | os.PathLike[str],
    fix: str = "correct the path",
    *,
    what: str = "the file",
    within: Path | None = None,
) -> IO[bytes]:
    """Open a regular file for reading; raise FileError for any other file.

    The file is checked after it is opened, because a path could be redirected between the check and the opening.
    ``within`` is a resolved folder that must contain the file after all symbolic links are followed. The error message
    calls the file ``what`` and suggests ``fix``.
    """
    path_text = printable(path)
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError as error:
        suggestion = near_file(path) if within is None else ""
        raise FileError(
            f"{what} cannot be read: {_reason(error)}",
            path=path_text,
            fix=f"{fix}; near is {suggestion}" if suggestion else fix,
        ) from error
    except (OSError, ValueError) as error:
        raise FileError(f"{what} cannot be read: {_reason(error)}", path=path_text, fix=fix) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FileError(
                f"{what} cannot be read: this is {_file_type(status.st_mode)}",
                path=path_text,
                rule="the path must name a regular file",
                fix=fix,
            )
        if within is not None and not _is_inside(path, status, within):
            raise FileError(
                f"{what} cannot be read: the path leads out of the folder",
                path=path_text,
                rule=f"the file must be inside {printable(within)}",
                fix=fix,
            )
        if os.read(descriptor, len(_POINTER)) == _POINTER:
            raise FileError(
                f"{what} cannot be read: this is a pointer of Git LFS",
                path=path_text,
                rule="the file must contain the content itself",
                fix="git lfs pull",
            )
        os.lseek(descriptor, 0, os.SEEK_SET)
        return os.fdopen(descriptor, "rb")
    except OSError as error:
        os.close(descriptor)
        raise FileError(f"{what} cannot be read: {_reason(error)}", path=path_text, fix=fix) from error
    except BaseException:
        os.close(descriptor)
        raise


def content(path: str | os.PathLike[str], fix: str = "correct the path", *, what: str = "the file") -> bytes:
    """Return all bytes of a regular file; raise FileError, before reading, if it exceeds ``budget.file_size``."""
    with opened(path, fix, what=what) as file:
        size = os.fstat(file.fileno()).st_size
        if size > budget.file_size:
            raise FileError(
                f"the file has {size:,} bytes",
                path=printable(path),
                rule=f"a file that is read as a whole must have at most {budget.file_size:,} bytes: budget.file_size",
                fix=f"ex.budget.file_size = {size}",
            )
        try:
            # not read(), because the file may grow beyond the budget meanwhile
            return file.read(size)
        except OSError as error:
            raise FileError(f"{what} cannot be read: {_reason(error)}", path=printable(path), fix=fix) from error


def near_file(path: str | os.PathLike[str], extensions: Sequence[str] = ()) -> str:
    """Return the existing path in the same folder whose name is most similar to the missing ``path``, or "".

    Files with one of ``extensions`` are preferred, even if only their stems are similar. Ties are resolved by the order
    of ``extensions``.
    """
    folder, name = os.path.split(os.fspath(path))
    try:
        with os.scandir(folder or ".") as entries:
            names = [entry.name for entry in islice(entries, _MAX_FILES) if entry.is_file()]
    except OSError:
        return ""
    stem, extension = _split_extension(name, extensions)
    ranked: list[tuple[tuple[float, ...], str]] = []
    for candidate in names:
        candidate_stem, candidate_extension = _split_extension(candidate, extensions)
        similarity = _similarity(name, candidate)
        if candidate_extension not in extensions:
            if similarity >= _MIN_SIMILARITY:
                ranked.append(((1, -similarity), candidate))
            continue
        stem_similarity = max(_similarity(stem, candidate_stem), float(candidate.startswith(f"{name}.")))
        if max(similarity, stem_similarity) >= _MIN_SIMILARITY:
            extension_similarity = _similarity(extension, candidate_extension)
            ranked.append(
                (
                    (
                        0,
                        -stem_similarity,
                        -extension_similarity if extension_similarity >= _MIN_EXTENSION_SIMILARITY else 0,
                        extensions.index(candidate_extension),
                    ),
                    candidate,
                )
            )
    return visible(printable(os.path.join(folder, min(ranked)[1]))) if ranked else ""


def _split_extension(name: str, extensions: Sequence[str]) -> tuple[str, str]:
    """Split a file name into stem and extension: the longest of ``extensions``, else the part after the last dot."""
    extension = max(
        (suffix for suffix in extensions if name.endswith(suffix)), key=len, default=os.path.splitext(name)[1]
    )
    return name.removesuffix(extension), extension


def _similarity(name: str, other: str) -> float:
    return SequenceMatcher(None, name, other, autojunk=False).ratio()


def printable(path: str | os.PathLike[str]) -> str:
    """Return a path as printable text: invalid characters are escaped, and long paths are cut."""
    text = os.fspath(path)
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= _MAX_PATH_LENGTH else f"{text[:_MAX_PATH_LENGTH]}…"


_POINTER = b"version https://git-lfs.github.com/spec/"
"""first bytes of the pointer that Git LFS stores instead of a large file"""
_MAX_PATH_LENGTH = 1024
_MAX_FILES, _MIN_SIMILARITY, _MIN_EXTENSION_SIMILARITY = 1000, 0.8, 0.7
"""maximum number of files examined in a folder; minimum similarity of names, and of extensions"""


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _file_type(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }  # fmt: skip
    return kinds.get(stat.S_IFMT(mode), "no regular file")


def _is_inside(path: str | os.PathLike[str], status: os.stat_result, folder: Path) -> bool:
    """Return whether ``path`` leads to the open file with this ``status``, inside ``folder``."""
    real = Path(os.path.realpath(path))
    try:
        # Compare device and inode, because the name may have been redirected since.
        return real.is_relative_to(folder) and os.path.samestat(os.lstat(real), status)
    except OSError:
        return False
