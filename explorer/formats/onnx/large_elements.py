"""Parsing of an ONNX file without the elements of its large tensors, which stay in the file.

The onnx package parses complete files, which takes several times their size in memory. The encoded message is therefore
scanned first, and the raw bytes of each large tensor are replaced with a short placeholder. A placeholder begins with
random bytes, so that no file can contain it. Invalid bytes are copied unchanged, so that the parser reports them.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from explorer.core.errors import FileError
from explorer.core.files.kept_file import KeptFile
from explorer.core.memory_budget import budget

LARGE = 4096
"""size in bytes above which messages are scanned and raw elements are replaced"""
_WINDOW = 1 << 16
"""number of bytes read from the file at a time"""
_KEY_BYTES = 20
"""maximum size in bytes of a field's key and length"""
_DEPTH = 100
"""maximum nesting depth of messages, equal to the parser's limit"""
_FIELDS = 1 << 22
"""maximum number of fields to scan; the rest of the file is copied unchanged, within the budget"""
_PER_FIELD = 64
"""bytes of short fields that count as one scanned field, because short fields are skipped much faster"""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def _short_fields() -> re.Pattern[bytes]:
    """Return a pattern for a run of fields that have one-byte keys and are too short to scan.

    Tree ensembles have millions of such fields, in lists of numbers and strings.
    """

    def key(wire_type: int) -> bytes:
        return b"[" + b"".join(re.escape(bytes([number << 3 | wire_type])) for number in range(1, 16)) + b"]"

    strings = b"|".join(re.escape(bytes([size])) + b".{%d}" % size for size in range(128))
    bodies = {
        _VARINT: b"[\x80-\xff]{0,9}[\0-\x7f]",
        _FIXED64: b".{8}",
        _FIXED32: b".{4}",
        _BYTES: b"(?:" + strings + b")",
    }
    fields = b"|".join(key(wire_type) + body for wire_type, body in bodies.items())
    # The possessive quantifier keeps no backtracking state for millions of fields.
    return re.compile(b"(?:" + fields + b")++", re.DOTALL)


_SHORT_FIELDS = _short_fields()


@dataclass(frozen=True)
class Elements:
    """The raw elements of a tensor, as a byte range of the model's file."""

    file: KeptFile
    first: int
    size: int

    def read(self) -> NDArray[np.uint8]:
        """Read the elements; raise FileError if the file has changed since it was opened."""
        return self.file.part(self.first, self.size)

    def check(self) -> None:
        """Raise FileError if the file has changed since it was opened."""
        self.file.check(self.first, self.size)


class _Level:
    """A message being scanned: its type, its end offset in the file, and its bytes without large elements."""

    __slots__ = ("end", "key", "message_type", "output")

    def __init__(self, message_type: Any, end: int, key: bytes) -> None:
        self.message_type, self.end, self.key = message_type, end, key
        self.output = bytearray()


class MessageWithoutElements:
    """A model's bytes without its large elements, and a mapping from placeholders to these elements."""

    def __init__(self, file: KeptFile) -> None:
        """Scan a file; raise FileError if it is larger than ``budget.file_size`` without its large elements."""
        self._file, self._mark = file, secrets.token_bytes(16)
        self._window, self._window_start = b"", 0
        self.elements: dict[bytes, Elements] = {}
        self.size = 0
        self.data = bytes(self._scan())

    def _scan(self) -> bytearray:
        # An explicit stack instead of recursion, because the file determines the nesting depth.
        levels = [_Level(ModelProto.DESCRIPTOR, self._file.size, b"")]
        offset = copied = scanned = 0
        while True:
            level = levels[-1]
            if offset < level.end and scanned < _FIELDS:
                skipped = self._skip(offset, level.end)
                offset, scanned = offset + skipped, scanned + skipped // _PER_FIELD
            field = self._field(offset, level.end) if offset < level.end and scanned < _FIELDS else None
            scanned += 1
            if field is None:  # the end of the message, or invalid bytes, which the parser reports
                self._copy(level, copied, level.end)
                offset = copied = level.end
                levels.pop()
                if not levels:
                    return level.output
                levels[-1].output += level.key + _varint(len(level.output)) + level.output
                continue
            key, number, first, end = field
            described = level.message_type.fields_by_number.get(number) if end - first > LARGE else None
            if described is not None and described.message_type is not None and len(levels) < _DEPTH:
                self._copy(level, copied, offset)
                levels.append(_Level(described.message_type, end, key))
                offset = copied = first
                continue
            if described is not None and described.full_name == "onnx.TensorProto.raw_data":
                self._copy(level, copied, offset)
                mark = self._mark + len(self.elements).to_bytes(8, "little")
                self.elements[mark] = Elements(self._file, first, end - first)
                level.output += key + _varint(len(mark)) + mark
                copied = end
            offset = end

    def _skip(self, offset: int, end: int) -> int:
        at = self._window_index(offset)
        fields = _SHORT_FIELDS.match(self._window, at, min(len(self._window), end - self._window_start))
        return fields.end() - at if fields else 0

    def _window_index(self, offset: int) -> int:
        """Return an offset's index in the window, after reading a new window if necessary."""
        if not self._window_start <= offset <= self._window_start + len(self._window) - _KEY_BYTES:
            self._window_start = offset
            self._window = self._file.part(offset, min(_WINDOW, self._file.size - offset)).tobytes()
        return offset - self._window_start

    def _field(self, offset: int, end: int) -> tuple[bytes, int, int, int] | None:
        """Return the key, number, start and end of the field at ``offset``; None if the field is invalid.

        A field without a length prefix has an empty key, number 0, and start equal to end.
        """
        at, window = self._window_index(offset), self._window
        tag, after = _read_varint(window, at)
        wire_type = tag & 7
        if not tag >> 3:  # invalid field number 0, as read from zero bytes
            return None
        if wire_type == _BYTES and after:
            length, first = _read_varint(window, after)
            last = self._window_start + first + length
            return (window[at:after], tag >> 3, self._window_start + first, last) if first and last <= end else None
        if wire_type == _VARINT and after:
            _, after = _read_varint(window, after)
        elif wire_type in (_FIXED64, _FIXED32):
            after = after and after + (8 if wire_type == _FIXED64 else 4)
        else:
            after = 0
        last = self._window_start + after
        return (b"", 0, last, last) if after and last <= end else None

    def _copy(self, level: _Level, first: int, end: int) -> None:
        self.size += end - first
        if self.size > budget.file_size:
            raise FileError(
                f"the file has {self.size:,} bytes" + " without its large weights" * bool(self.elements),
                path=str(self._file.path),
                rule=f"a file must have at most {budget.file_size:,} bytes without large weights (budget.file_size)",
                fix=f"ex.budget.file_size = {self._file.size}",
            )
        if end > first:
            level.output += self._file.part(first, end - first).data


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at index ``at`` and the index after it; (0, 0) if it is incomplete."""
    value = shift = 0
    for offset in range(at, min(at + 10, len(data))):
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset + 1
        shift += 7
    return 0, 0


def _varint(value: int) -> bytes:
    output = bytearray()
    while value >= 0x80:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*output, value])
