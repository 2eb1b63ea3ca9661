"""Zips of weights: what an entry claims is checked before anything is allocated for it.

PNNX's .bin and NumPy's .npz are zips, read by Python's ``zipfile``. It trusts the directory: a few bytes may claim to
unpack to terabytes. So the claims are compared with the size of the file, with deflate's best ratio and with the memory
budget, and the readers allocate only what passed.
"""

from __future__ import annotations

import lzma
import os
import struct
import tokenize
import weakref
import zipfile
import zlib
from collections.abc import Iterable, Iterator

from explorer.core.files.open_untrusted import opened
from explorer.core.memory_budget import budget, size_text

_DEFLATE_RATIO = 1032
"""deflate expands a byte to at most so many; a directory that claims more is wrong"""
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    tokenize.TokenError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    RecursionError,
    MemoryError,
    SyntaxError,
    LookupError,
    TypeError,
    ValueError,
    OverflowError,
    OSError,
)
"""errors that ``zipfile``, and NumPy's reader of the arrays in one, raise for damaged files"""


class Archive(zipfile.ZipFile):
    """A zip in a regular file, which is closed with it; ``size`` are the bytes of the file."""

    def __init__(self, path: str | os.PathLike[str], fix: str) -> None:
        """Open it; raises FileError where there is no such file, one of ``UNREADABLE`` where it is no zip."""
        self._opened = opened(path, fix)
        # The collector may end the parts of a cycle in any order: the file is closed before it ends any of them.
        weakref.finalize(self, self._opened.close)
        self.size = os.fstat(self._opened.fileno()).st_size
        try:
            super().__init__(self._opened)
            self._check_places()
        except BaseException:
            self._opened.close()
            raise

    def _check_places(self) -> None:
        # Some versions of Python read one of two such entries, and warn.
        names: dict[int, str] = {}
        for entry in self.infolist():
            if entry.header_offset in names:
                other = names[entry.header_offset]
                raise zipfile.BadZipFile(f"the entries {other!r} and {entry.filename!r} begin at the same byte")
            names[entry.header_offset] = entry.filename

    def close(self) -> None:
        """Close the zip and its file."""
        super().close()
        if hasattr(self, "_opened"):  # it is closed, too, where it could not be opened
            self._opened.close()


def unsound(entry: zipfile.ZipInfo, file_bytes: int) -> str:
    """Say why an entry cannot be what the directory of a file of so many bytes claims, "" where it can."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"is compressed by method {entry.compress_type}; only stored and deflated entries are read"
    if entry.flag_bits & 1:
        return "is encrypted"
    stored = entry.compress_type == zipfile.ZIP_STORED
    least = entry.file_size if stored else entry.file_size // _DEFLATE_RATIO
    if entry.compress_size < least or entry.header_offset + entry.compress_size > file_bytes:
        return f"claims {entry.file_size} bytes, more than the file of {file_bytes} bytes can hold; it is cut off"
    return ""


def overclaimed(entries: Iterable[zipfile.ZipInfo]) -> str:
    """Say how much more than they hold entries claim to unpack to, "" where that is within the budget."""
    # what stored entries hold is in the file already, and bounded by it; only expansion is claimed
    more = sum([max(0, entry.file_size - entry.compress_size) for entry in entries])
    if more <= budget.text:
        return ""
    return f"the entries unpack to {size_text(more)} more than they hold; budget.text grants {size_text(budget.text)}"


def blocks(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    """Yield the bytes of an entry, block by block; its checksum is compared when the last ones are read."""
    with archive.open(name) as entry:
        while block := entry.read(_BLOCK):
            yield block


_BLOCK = 1 << 20
"""bytes read at a time, so that only one array of a weight's size is held"""
