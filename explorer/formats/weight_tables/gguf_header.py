"""Parser of GGUF headers (llama.cpp): metadata, and the name, type, shape and byte range of each tensor.

The package ``gguf`` allocates an array for every string before it checks any length, so a header of a hundred bytes can
exhaust the memory. This parser therefore compares each count with the number of remaining bytes first.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, NoReturn

from explorer.core.errors import FileError
from explorer.core.files.kept_file import KeptFile
from explorer.core.memory_budget import AXES
from explorer.record.reasons import counted_text

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_ALIGNMENT = 32
_STRING, _ARRAY = 8, 9
"""metadata types of variable length"""
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""format characters of :mod:`struct` for metadata types of fixed length"""
_DIMENSIONS = 4
"""maximum number of axes of a ggml tensor"""
_MIN_TENSOR, _MIN_ENTRY, _MIN_STRING = 24, 13, 8
"""minimum sizes of a tensor's description, a metadata entry and a string, in bytes"""
_SHOWN = 200
"""number of characters after which a metadata string is cut off"""
TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 40), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip
"""name, number of elements in a block, and size of a block in bytes, by the number of the ggml type"""
_DOWNLOAD_AGAIN = "download the file again, or convert the model again with llama.cpp's convert_hf_to_gguf.py"


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor of a file: type number, shape (slowest axis first), and its ``size`` bytes from offset ``first``."""

    name: str
    type: int
    shape: tuple[int, ...]
    first: int
    size: int

    @property
    def type_name(self) -> str:
        """Name of the type, such as ``Q4_K``, or ``type 36`` for an unknown type."""
        return TYPES[self.type][0] if self.is_known else f"type {self.type}"

    @property
    def is_known(self) -> bool:
        """Whether the type is in :data:`TYPES`."""
        return self.type in TYPES


class GgufHeader:
    """The header of an open file: ``metadata`` by key, and ``tensors``. Arrays in the metadata are kept as lengths."""

    def __init__(self, file: KeptFile) -> None:
        """Read the header; raise FileError if it is damaged or its version is not supported."""
        self._file, self._offset = file, 0
        if self._bytes(4) != _MAGIC:
            self._fail("it does not begin with GGUF", rule="a .gguf file must begin with these four letters")
        version = self._number("I")
        if version not in _VERSIONS:
            # Versions are small integers, so a file is big-endian if its version is valid after swapping the bytes.
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            self._fail(
                f"it has version {version}" if swapped not in _VERSIONS else "its numbers are big-endian",
                rule=f"the file must have GGUF version {' or '.join(map(str, _VERSIONS))}, and be little-endian",
            )
        self.version = version
        tensors, entries = self._count(_MIN_TENSOR, "tensors"), self._count(_MIN_ENTRY, "metadata entries")
        self.metadata: dict[str, Any] = {}
        for _ in range(entries):
            key = self._string()
            self.metadata[key] = self._value(self._number("I"))
        stated = [self._tensor() for _ in range(tensors)]
        alignment = self.metadata.get("general.alignment", _ALIGNMENT)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
            self._fail(
                f"general.alignment is {alignment!r}", rule="the alignment must be a number of bytes, such as 32"
            )
        # Offsets of tensors are counted from the first aligned byte after the header.
        start = -(-self._offset // alignment) * alignment
        self._offsets = sorted([*(offset for *_, offset in stated), max(file.size - start, 0)])
        self.tensors = [self._placed(*each, start) for each in stated]
        names = [tensor.name for tensor in self.tensors]
        if len({*names}) < len(names):
            duplicate = next(name for index, name in enumerate(names) if name in names[:index])
            self._fail(f"there are two tensors {duplicate!r}", rule="the names of tensors must be unique")

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string()
        axes = self._number("I")
        if axes > min(_DIMENSIONS, AXES):
            self._fail(
                f"tensor {name!r} has {counted_text(axes, 'axis', 'axes')}",
                rule=f"a tensor must have at most {_DIMENSIONS} axes",
            )
        # files store the fastest axis first
        shape = tuple(reversed([self._number("Q") for _ in range(axes)]))
        return name, shape, self._number("I"), self._number("Q")

    def _placed(self, name: str, shape: tuple[int, ...], type: int, offset: int, start: int) -> GgufTensor:
        """Return a tensor with its byte range, after comparing the range with the file's size."""
        if type in TYPES:
            type_name, block, block_bytes = TYPES[type]
            if (shape[-1] if shape else 1) % block:
                self._fail(
                    f"tensor {name!r} of {type_name} has rows of {counted_text(shape[-1], 'element')}",
                    rule=f"a row of {type_name} must consist of whole blocks of {block} elements",
                )
            size = math.prod(shape) // block * block_bytes
        else:  # the size of an unknown type is not known, so its bytes end at the next tensor
            following = bisect_right(self._offsets, offset)
            size = self._offsets[following] - offset if following < len(self._offsets) else 0
        if start + offset + size > self._file.size:
            self._fail(
                f"tensor {name!r} has {size} bytes from {start + offset}, but the file has {self._file.size}",
                rule="the file must contain the bytes of all its tensors",
            )
        return GgufTensor(name, type, shape, start + offset, size)

    def _value(self, type_number: int) -> Any:
        if type_number in _NUMBERS:
            return self._number(_NUMBERS[type_number])
        if type_number == _STRING:
            return self._string()
        if type_number != _ARRAY:
            self._fail(f"metadata of type {type_number}", rule="metadata must be numbers, strings, or arrays of these")
        member_type, label = self._number("I"), "metadata values"
        if member_type == _STRING:
            length = self._count(_MIN_STRING, label)
            for _ in range(length):
                self._skip(self._number("Q"))
        elif member_type in _NUMBERS:
            member_bytes = struct.calcsize(_NUMBERS[member_type])
            length = self._count(member_bytes, label)
            self._skip(length * member_bytes)
        else:
            self._fail(f"an array of type {member_type}", rule="metadata arrays must contain numbers or strings")
        return f"{counted_text(length, 'value')}"

    def _count(self, min_bytes: int, label: str) -> int:
        """Read a count of items of at least ``min_bytes`` bytes; raise FileError if the file is too small for them."""
        count: int = self._number("Q")
        if count > (self._file.size - self._offset) // min_bytes:
            self._fail(
                f"it declares {count} {label}, but only {self._file.size - self._offset} bytes follow",
                rule="the file must contain all items that its header counts",
            )
        return count

    def _number(self, letter: str) -> Any:
        return struct.unpack(f"<{letter}", self._bytes(struct.calcsize(letter)))[0]

    def _string(self) -> str:
        length = self._number("Q")
        # A UTF-8 character has at most four bytes.
        kept = self._bytes(min(length, _SHOWN * 4))
        self._skip(length - len(kept))
        try:
            text = kept.decode("utf-8", "strict" if len(kept) == length else "ignore")
        except UnicodeDecodeError:
            self._fail(f"the string {kept[:40]!r}", rule="names and strings must be UTF-8")
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

    def _skip(self, length: int) -> None:
        if length > self._file.size - self._offset:
            self._fail_cut_off(length)
        self._file.file.seek(length, 1)
        self._offset += length

    def _bytes(self, length: int) -> bytes:
        data = self._file.file.read(min(length, self._file.size - self._offset))
        if len(data) < length:
            self._fail_cut_off(length)
        self._offset += length
        return data

    def _fail_cut_off(self, length: int) -> NoReturn:
        self._fail(
            f"its header needs {length} bytes from {self._offset}, but the file has {self._file.size}",
            rule="the file must be complete",
        )

    def _fail(self, problem: str, *, rule: str, fix: str = _DOWNLOAD_AGAIN) -> NoReturn:
        raise FileError(problem, path=str(self._file.path), rule=rule, fix=fix)
