"""Zips of weights: what an entry claims is checked before anything is allocated for it."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib

_DEFLATE_RATIO = 1032
"""deflate expands a byte to at most so many; a directory that claims more is wrong"""
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
    ValueError,
    OverflowError,
    OSError,
)
"""what ``zipfile``, and NumPy's reader of what is in one, raise on damaged files"""


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
