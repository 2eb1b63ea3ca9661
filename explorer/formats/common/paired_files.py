"""Models in two files, a text and the zip of its weights: saved as one, and read as one.

The zip says in its comment which text it was saved with. It is replaced first; from then on the new model is the one
that is there: whoever reads it before the text has followed, or after the writer was killed in between, finds the
text's scratch file. assets/decisions/0009 tells why.
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
    """A model's two files at one moment; after the block the zip is open only if its weights were taken."""

    def __init__(self, text: bytes, archive: Archive | None = None, mixed: FileError | None = None) -> None:
        self.text = text
        self._archive = archive
        """the zip of weights, open; None where there is none, or none that can be read"""
        self._mixed = mixed
        """the error for two files that are not of one save"""
        self._taken = False

    def weights(self) -> Archive | None:
        """Return the zip of weights, for a text that has some; raises FileError if it is another text's."""
        if self._mixed is not None:
            raise self._mixed
        self._taken = True
        return self._archive

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._archive is not None and not self._taken:
            self._archive.close()


def save_pair(text: bytes, path: Path, weights_path: Path, write: Callable[[IO[bytes], bytes], None] | None) -> None:
    """Replace ``path`` by a text, and ``weights_path`` by the zip that ``write`` writes to a file, with a comment.

    Without ``write`` the text has no weights, and stands alone. Raises FileError where there is no room, or no folder,
    and for a file of others' in the place of the weights.
    """
    if write is not None:
        _refuse_foreign(path, weights_path)
    with Replacement(path) as first:
        first.file.write(text)
        first.complete()
        if write is None:
            first.replace()
        else:
            _replace_both(first, weights_path, lambda file: write(file, _MARK + _digest(text)))
        remove_abandoned(first.target)  # not before: the zip that is there may have been saved with one of them


def _refuse_foreign(path: Path, weights_path: Path) -> None:
    """Raise FileError if a new text's weights would replace a file that no model was saved with."""
    if path.exists() or not weights_path.exists():
        return
    archive = _open(weights_path)
    if archive is not None:
        with archive:
            if _COMMENT.fullmatch(archive.comment):
                return
    raise FileError(
        f"{weights_path.name} is there, and was not saved with a model",
        path=str(path),
        rule=f"the weights of {path.name} must go into {weights_path.name}, and must replace no other data",
        fix=f"save under another name, or remove {weights_path.name} first",
    )


def _replace_both(first: Replacement, weights_path: Path, write: Callable[[IO[bytes]], None]) -> None:
    with Replacement(weights_path) as second:
        remove_abandoned(second.target)
        write(second.file)
        second.complete()
        try:
            # two writers must not interleave their two replacements; a name of at most 255 bytes, hence 40 characters
            # of it
            with alone(first.target.with_name(f".{first.target.name[:40]}.lock.explorer~")):
                _rename_both(first, second)
        except OSError as error:
            if isinstance(error, FileError):
                raise
            raise unwritable(first.path, error) from error


def _rename_both(first: Replacement, second: Replacement) -> None:
    # from the second's replacement on, the first's scratch file is the model's text: it must outlive a crash
    first.lasting = True
    try:
        second.replace()
        first.replace()
    except BaseException:
        if second.scratch.exists():  # nothing is replaced
            first.lasting = False
        elif first.scratch.exists():  # an interrupt came between
            first.replace()
        raise


def read_pair(path: Path, weights_path: Path) -> Pair:
    """Read the text and the weights of one save, as they are at one moment; raises FileError if there is no text.

    A text whose weights are of another save can be read all the same: it may have none.
    """
    # Without a lock: readers must not need the right to write. If the two do not match and neither changed while they
    # were read, they belong to different saves; otherwise a save went on meanwhile, and they are read again.
    while True:
        # inode, time and size: a replaced file has another inode, even within the clock's resolution
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
        f"{weights_path.name}, the weights beside it, was saved with another text",
        path=str(path),
        rule="the two files of a saved model must be those of one save, with neither edited since",
        fix="put the other file of the same save beside it, or take them as they are: "
        f"ex.open({str(path)!r}, weights={str(weights_path)!r}), and save that net to make them one",
    )


def _open(path: Path) -> Archive | None:
    try:
        return Archive(path, "")
    except UNREADABLE:  # whoever needs its weights opens it again, and tells what is wrong
        return None


def _content(path: Path) -> bytes | None:
    try:
        return content(path)
    except FileError:  # it has taken the text's place by now
        return None


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _digest(text: bytes) -> bytes:
    """Return the text's digest, which line ends of a version control system do not change."""
    return hashlib.sha256(text.replace(b"\r\n", b"\n")).hexdigest().encode("ascii")
