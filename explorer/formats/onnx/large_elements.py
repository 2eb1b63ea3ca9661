"""Elements of large tensors, left where they are in an ONNX file: the message is parsed without them.

The onnx package parses a file as a whole, several times its size in memory. Here the wire format is walked first, into
messages that are large alone, and the raw bytes of each large tensor are left out: a short mark stands in the parsed
message for them. A mark begins with random bytes, so that no file can hold one. Whatever is not well-formed is copied
as it stands, for the parser to judge.
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
"""bytes from which a message is walked into, and raw elements are left out"""
_WINDOW = 1 << 16
"""bytes of the file that are read at a time"""
_LONGEST = 20
"""bytes of the longest key with its length"""
_NESTING = 100
"""levels of messages: more are refused by the parser"""
_FIELDS = 1 << 22
"""fields that are walked at most: what is left of a file of more is copied, as far as it is granted"""
_PER_FIELD = 64
"""bytes of short fields that count as a field, since they are skipped so much faster"""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def _short_fields() -> re.Pattern[bytes]:
    """Return a pattern of fields in a row that are too short to be walked into, with keys of one byte.

    Lists of numbers and texts are such rows, a field for each member: trees of a forest have millions.
    """

    def key(wire_type: int) -> bytes:
        return b"[" + b"".join(re.escape(bytes([number << 3 | wire_type])) for number in range(1, 16)) + b"]"

    texts = b"|".join(re.escape(bytes([size])) + b".{%d}" % size for size in range(128))
    bodies = {
        _VARINT: b"[\x80-\xff]{0,9}[\0-\x7f]",
        _FIXED64: b".{8}",
        _FIXED32: b".{4}",
        _BYTES: b"(?:" + texts + b")",
    }
    fields = b"|".join(key(wire_type) + body for wire_type, body in bodies.items())
    # Possessive: a field that is matched is never given back, so that nothing is kept to go back to, of millions of
    # them.
    return re.compile(b"(?:" + fields + b")++", re.DOTALL)


_SHORT_FIELDS = _short_fields()


@dataclass(frozen=True)
class Elements:
    """Raw elements of a tensor in its model's own file."""

    file: KeptFile
    first: int
    size: int

    def read(self) -> NDArray[np.uint8]:
        """Read them; raises FileError where the file has changed since it was opened."""
        return self.file.part(self.first, self.size)

    def check(self) -> None:
        """Raise FileError where the file has changed since it was opened."""
        self.file.check(self.first, self.size)


class _Level:
    """A message that is being walked: its type, where it ends in the file, and its bytes without large elements."""

    __slots__ = ("end", "key", "message_type", "out")

    def __init__(self, message_type: Any, end: int, key: bytes) -> None:
        self.message_type, self.end, self.key = message_type, end, key
        self.out = bytearray()


class LightMessage:
    """The bytes of a model without its large elements, and these by the marks that stand for them."""

    def __init__(self, file: KeptFile) -> None:
        """Walk a file; raises FileError where what remains is larger than granted."""
        self._file, self._mark = file, secrets.token_bytes(16)
        self._window, self._from = b"", 0
        self.elements: dict[bytes, Elements] = {}
        self.size = 0
        self.data = bytes(self._walk())

    def _walk(self) -> bytearray:
        """Return the message; levels are a list, not calls: a file chooses how deep they are."""
        levels = [_Level(ModelProto.DESCRIPTOR, self._file.size, b"")]
        place = copied = walked = 0
        while True:
            level = levels[-1]
            if place < level.end and walked < _FIELDS:
                skipped = self._skip(place, level.end)
                place, walked = place + skipped, walked + skipped // _PER_FIELD
            field = self._field(place, level.end) if place < level.end and walked < _FIELDS else None
            walked += 1
            if field is None:  # its end, or bytes that only the parser may judge
                self._copy(level, copied, level.end)
                place = copied = level.end
                levels.pop()
                if not levels:
                    return level.out
                levels[-1].out += level.key + _varint(len(level.out)) + level.out
                continue
            key, number, first, end = field
            described = level.message_type.fields_by_number.get(number) if end - first > LARGE else None
            if described is not None and described.message_type is not None and len(levels) < _NESTING:
                self._copy(level, copied, place)
                levels.append(_Level(described.message_type, end, key))
                place = copied = first
                continue
            if described is not None and described.full_name == "onnx.TensorProto.raw_data":
                self._copy(level, copied, place)
                mark = self._mark + len(self.elements).to_bytes(8, "little")
                self.elements[mark] = Elements(self._file, first, end - first)
                level.out += key + _varint(len(mark)) + mark
                copied = end
            place = end

    def _skip(self, place: int, end: int) -> int:
        """Return the bytes of the short fields from a place on, as far as they are read already."""
        at = self._look(place)
        fields = _SHORT_FIELDS.match(self._window, at, min(len(self._window), end - self._from))
        return fields.end() - at if fields else 0

    def _look(self, place: int) -> int:
        """Return where a place is in the part of the file that is read already, and read on where it is not."""
        if not self._from <= place <= self._from + len(self._window) - _LONGEST:
            self._from = place
            self._window = self._file.part(place, min(_WINDOW, self._file.size - place)).tobytes()
        return place - self._from

    def _field(self, place: int, end: int) -> tuple[bytes, int, int, int] | None:
        """Return a field's key, number, first byte and end, of bytes with a length alone; None where it is none."""
        at, window = self._look(place), self._window
        tag, after = _number(window, at)
        wire_type = tag & 7
        if not tag >> 3:  # no field has the number 0: zeros, such as the holes of a file that takes no room
            return None
        if wire_type == _BYTES and after:
            length, first = _number(window, after)
            last = self._from + first + length
            return (window[at:after], tag >> 3, self._from + first, last) if first and last <= end else None
        if wire_type == _VARINT and after:
            _, after = _number(window, after)
        elif wire_type in (_FIXED64, _FIXED32):
            after = after and after + (8 if wire_type == _FIXED64 else 4)
        else:
            after = 0
        last = self._from + after
        return (b"", 0, last, last) if after and last <= end else None

    def _copy(self, level: _Level, first: int, end: int) -> None:
        self.size += end - first
        if self.size > budget.text:
            raise FileError(
                f"the file has {self.size:,} bytes" + " beside its large weights" * bool(self.elements),
                path=str(self._file.path),
                rule=f"a file that is read as a whole must have at most {budget.text:,} bytes: budget.text",
                fix=f"ex.budget.text = {self._file.size}",
            )
        if end > first:
            level.out += self._file.part(first, end - first).data


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and the place after it; 0 for the place where it does not end."""
    value = shift = 0
    for place in range(at, min(at + 10, len(data))):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    return 0, 0


def _varint(value: int) -> bytes:
    """Return a number as seven bits a byte."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
