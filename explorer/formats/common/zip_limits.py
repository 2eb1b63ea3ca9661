"""Checks for zip files of weights: stated sizes are validated before memory is allocated.

PNNX's ``.bin`` files and NumPy's ``.npz`` files are zips. Python's ``zipfile`` trusts a zip's directory, in which an
entry of a few bytes may claim to unpack to terabytes. Stated sizes are therefore compared with the file size, deflate's
maximum compression ratio and the memory budget.
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
"""maximum number of bytes to which deflate can expand one byte"""
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
"""errors that ``zipfile`` and NumPy's array reader raise for damaged files"""


class Archive(zipfile.ZipFile):
    """An open zip, whose file is closed with it. ``size`` is the file size in bytes."""

    def __init__(self, path: str | os.PathLike[str], fix: str) -> None:
        """Open a zip; raise FileError if the file is missing, or an error of ``UNREADABLE`` if it is not a zip."""
        self._opened = opened(path, fix)
        # The garbage collector finalizes the objects of a cycle in any order. This finalizer runs first, and closes the
        # file.
        weakref.finalize(self, self._opened.close)
        self.size = os.fstat(self._opened.fileno()).st_size
        try:
            super().__init__(self._opened)
            self._check_offsets()
        except BaseException:
            self._opened.close()
            raise

    def _check_offsets(self) -> None:
        # Some versions of Python only warn about entries that begin at the same byte, and read one of them.
        names: dict[int, str] = {}
        for entry in self.infolist():
            if entry.header_offset in names:
                other = names[entry.header_offset]
                raise zipfile.BadZipFile(f"the entries {other!r} and {entry.filename!r} begin at the same byte")
            names[entry.header_offset] = entry.filename

    def close(self) -> None:
        """Close the zip and its file."""
        super().close()
        if hasattr(self, "_opened"):  # also called if opening failed
            self._opened.close()


def entry_fault(entry: zipfile.ZipInfo, file_bytes: int) -> str:
    """Return why an entry cannot be read, or ""; ``file_bytes`` is the size of the zip."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"is compressed by method {entry.compress_type}; only stored and deflated entries are supported"
    if entry.flag_bits & 1:
        return "is encrypted"
    stored = entry.compress_type == zipfile.ZIP_STORED
    least = entry.file_size if stored else entry.file_size // _DEFLATE_RATIO
    if entry.compress_size < least or entry.header_offset + entry.compress_size > file_bytes:
        return f"states {entry.file_size} bytes, more than a file of {file_bytes} bytes can contain; it is cut off"
    return ""


def memory_fault(entries: Iterable[zipfile.ZipInfo]) -> str:
    """Return an error message if the unpacked entries exceed the memory budget, else ""."""
    # Stored entries are never larger than the file, so only the growth of compressed entries counts.
    more = sum([max(0, entry.file_size - entry.compress_size) for entry in entries])
    if more <= budget.file_size:
        return ""
    limit = size_text(budget.file_size)
    return f"the entries unpack to {size_text(more)} more than their size; budget.file_size allows {limit}"


def blocks(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    """Yield the bytes of an entry in blocks, and verify its checksum after the last block."""
    with archive.open(name) as entry:
        while block := entry.read(_BLOCK):
            yield block


_BLOCK = 1 << 20
"""block size in bytes; reading in blocks avoids a second copy of a weight in memory"""
