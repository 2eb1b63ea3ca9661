"""Models stored in two files, a text and a zip of weights, which are saved and read together.

The zip's comment contains a digest of the text that was saved with it. The zip is replaced first. Until the text is
also replaced, readers read the new text from its scratch file, so a writer that is killed in between does no harm.
assets/decisions/0009 gives the reasons.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import IO, Self

from explorer.core.errors import FileError
from explorer.core.files.atomic_write import Replacement, alone, remove_abandoned, scratch_files, unwritable
from explorer.core.files.open_untrusted import content
from explorer.formats.common.zip_limits import UNREADABLE, Archive

_MARK = b"explorer: saved with the text of sha256 "
_COMMENT = re.compile(re.escape(_MARK) + rb"([0-9a-f]{64})")


class Pair:
    """Consistent snapshot of a model's two files. On exit, the zip is closed unless :meth:`weights` was called."""

    def __init__(self, text: bytes, archive: Archive | None = None, mixed: FileError | None = None) -> None:
        self.text = text
        self._archive = archive
        """the open zip of weights; None if it is missing or unreadable"""
        self._mixed = mixed
        """the error to raise if the two files belong to different saves"""
        self._is_taken = False

    def weights(self) -> Archive | None:
        """Return the open zip of weights, or None if absent; raise FileError if it was saved with another text."""
        if self._mixed is not None:
            raise self._mixed
        self._is_taken = True
        return self._archive

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._archive is not None and not self._is_taken:
            self._archive.close()


def save_pair(text: bytes, path: Path, weights_path: Path, write: Callable[[IO[bytes], bytes], None] | None) -> None:
    """Replace the file ``path`` with ``text``, and the file ``weights_path`` with a zip of weights.

    ``write(file, comment)`` writes the zip, or is None if there are no weights. Raise FileError if the disk is full, if
    the folder is missing, or if ``weights_path`` is a file that was not saved with a model.
    """
    if write is not None:
        _check_not_foreign(path, weights_path)
    with Replacement(path) as first:
        first.file.write(text)
        first.complete()
        if write is None:
            first.replace()
        else:
            _replace_both(first, weights_path, lambda file: write(file, _MARK + _digest(text)))
        remove_abandoned(first.target)  # only now, since until now the previous zip might belong to an abandoned file


def _check_not_foreign(path: Path, weights_path: Path) -> None:
    """Raise FileError if the new weights would replace a file that was not saved with a model."""
    if path.exists() or not weights_path.exists():
        return
    archive = _open(weights_path)
    if archive is not None:
        with archive:
            if _COMMENT.fullmatch(archive.comment):
                return
    raise FileError(
        f"{weights_path.name} exists, and was not saved with a model",
        path=str(path),
        rule=f"the weights of {path.name} are saved in {weights_path.name}, and must replace no other data",
        fix=f"save under another name, or remove {weights_path.name} first",
    )


def _replace_both(first: Replacement, weights_path: Path, write: Callable[[IO[bytes]], None]) -> None:
    with Replacement(weights_path) as second:
        remove_abandoned(second.target)
        write(second.file)
        second.complete()
        try:
            # locked, so that two writers cannot interleave; 40 characters, since a file name has at most 255 bytes
            with alone(first.target.with_name(f".{first.target.name[:40]}.lock.explorer~")):
                _rename_both(first, second)
        except OSError as error:
            if isinstance(error, FileError):
                raise
            raise unwritable(first.path, error) from error


def _rename_both(first: Replacement, second: Replacement) -> None:
    # After the zip is replaced, the scratch file contains the model's text and must survive a crash.
    first.lasting = True
    try:
        second.replace()
        first.replace()
    except BaseException:
        if second.scratch.exists():  # neither file was replaced
            first.lasting = False
        elif first.scratch.exists():  # interrupted between the two replacements
            first.replace()
        raise


def read_pair(path: Path, weights_path: Path) -> Pair:
    """Read a model's text and weights as one consistent snapshot; raise FileError if the text is missing.

    If the weights were saved with another text, only :meth:`Pair.weights` raises an error, because the text may
    declare no weights.
    """
    # No lock is used, since readers may lack write permission. If the files do not match, although neither changed
    # while they were read, they belong to different saves. If one changed, a save was in progress, and both are read
    # again.
    while True:
        # A replaced file has another inode, even if its modification time is the same.
        before = _identity(path), _identity(weights_path)
        text = content(path, f"correct the path of the {path.suffix} file")
        archive = _open(weights_path)
        comment = _COMMENT.fullmatch(archive.comment) if archive is not None else None
        if comment is None or _digest(text) == comment[1]:
            return Pair(text, archive)
        for scratch in scratch_files(Path(os.path.realpath(path))):
            waiting = _content(scratch)
            if waiting is not None and _digest(waiting) == comment[1]:
                return Pair(waiting, archive)
        if (_identity(path), _identity(weights_path)) == before:
            return Pair(text, archive, _mixed(path, weights_path))
        if archive is not None:
            archive.close()


def _mixed(path: Path, weights_path: Path) -> FileError:
    return FileError(
        f"{weights_path.name}, its file of weights, was saved with another text",
        path=str(path),
        rule="the two files of a saved model must come from the same save, and neither may be edited afterwards",
        fix="put the other file of the same save next to it, or combine the files as they are: "
        f"ex.open({str(path)!r}, weights={str(weights_path)!r}), and save that net",
    )


def _open(path: Path) -> Archive | None:
    try:
        return Archive(path, "")
    except UNREADABLE:  # a caller that needs the weights opens the file again, and the error is raised there
        return None


def _content(path: Path) -> bytes | None:
    try:
        return content(path)
    except FileError:  # the scratch file has replaced the text in the meantime
        return None


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _digest(text: bytes) -> bytes:
    """Return the digest of a text, which does not depend on Windows line endings."""
    return hashlib.sha256(text.replace(b"\r\n", b"\n")).hexdigest().encode("ascii")
