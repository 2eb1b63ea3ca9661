"""Headers of GGUF files, those of llama.cpp: metadata, and for each tensor its name, type, shape and place.

The package ``gguf`` maps a file and makes an array of every text in it before it looks at any length, so that a header
of a hundred bytes can ask for all memory. Here each count is compared with the bytes that are left before it is used.
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
_TEXT, _ARRAY = 8, 9
"""kinds of metadata whose length the file states"""
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""kinds of metadata of a fixed length → their letter in module struct"""
_DIMENSIONS = 4
"""most axes of a tensor of ggml"""
_LEAST_TENSOR, _LEAST_ENTRY, _LEAST_TEXT = 24, 13, 8
"""bytes that a tensor's description, an entry of metadata, and a text take at least"""
_SHOWN = 200
"""characters of a text of metadata that are kept"""
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
"""number of a type of ggml → its name, the elements of a block, and the bytes of one"""
_AGAIN = "download the file again, or convert the model again with llama.cpp's convert_hf_to_gguf.py"


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor of a file: its type's number, its shape with the slowest axis first, and where its bytes are."""

    name: str
    type: int
    shape: tuple[int, ...]
    first: int
    size: int

    @property
    def type_name(self) -> str:
        """Name of its type: ``Q4_K``; ``type 36`` for an unknown one."""
        return TYPES[self.type][0] if self.is_known else f"type {self.type}"

    @property
    def is_known(self) -> bool:
        """Whether its type is one of :data:`TYPES`."""
        return self.type in TYPES


class GgufHeader:
    """The header of an open file: ``metadata`` by key, with the length of an array in place of it, and ``tensors``."""

    def __init__(self, file: KeptFile) -> None:
        """Read it; raises FileError where it is damaged, or of a version that is not read."""
        self._file, self._at = file, 0
        if self._bytes(4) != _MAGIC:
            self._fail("it does not begin with GGUF", rule="a .gguf file must begin with these four letters")
        version = self._number("I")
        if version not in _VERSIONS:
            # A version is a small number: with its bytes the other way round it tells a big-endian file.
            turned = int.from_bytes(version.to_bytes(4, "little"), "big")
            self._fail(
                f"it is of version {version}" if turned not in _VERSIONS else "its numbers are big-endian",
                rule=f"the file must be of GGUF version {' or '.join(map(str, _VERSIONS))}, and little-endian",
            )
        tensors, entries = self._count(_LEAST_TENSOR, "tensors"), self._count(_LEAST_ENTRY, "entries of metadata")
        self.metadata: dict[str, Any] = {}
        for _ in range(entries):
            key = self._text()
            self.metadata[key] = self._value(self._number("I"))
        stated = [self._tensor() for _ in range(tensors)]
        alignment = self.metadata.get("general.alignment", _ALIGNMENT)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
            self._fail(
                f"general.alignment is {alignment!r}", rule="the alignment must be a number of bytes, such as 32"
            )
        # Tensors are counted from the first aligned byte behind the header.
        start = -(-self._at // alignment) * alignment
        self._offsets = sorted([*(offset for *_, offset in stated), max(file.size - start, 0)])
        self.tensors = [self._placed(*each, start) for each in stated]
        names = [tensor.name for tensor in self.tensors]
        if len({*names}) < len(names):
            twice = next(name for place, name in enumerate(names) if name in names[:place])
            self._fail(f"the tensor {twice!r} is there twice", rule="a tensor must have a name of its own")

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._text()
        axes = self._number("I")
        if axes > min(_DIMENSIONS, AXES):
            self._fail(
                f"tensor {name!r} has {counted_text(axes, 'axis', 'axes')}",
                rule=f"a tensor must have at most {_DIMENSIONS} axes",
            )
        # the file has the fastest axis first
        shape = tuple(reversed([self._number("Q") for _ in range(axes)]))
        return name, shape, self._number("I"), self._number("Q")

    def _placed(self, name: str, shape: tuple[int, ...], type: int, offset: int, start: int) -> GgufTensor:
        """Return a tensor with the bytes that it takes, which are compared with the file's."""
        if type in TYPES:
            word, block, block_bytes = TYPES[type]
            if (shape[-1] if shape else 1) % block:
                self._fail(
                    f"tensor {name!r} of {word} has rows of {counted_text(shape[-1], 'element')}",
                    rule=f"a row of {word} must be of whole blocks of {block} elements",
                )
            size = math.prod(shape) // block * block_bytes
        else:  # its bytes end before those of the next tensor
            after = bisect_right(self._offsets, offset)
            size = self._offsets[after] - offset if after < len(self._offsets) else 0
        if start + offset + size > self._file.size:
            self._fail(
                f"tensor {name!r} takes {size} bytes from {start + offset}, the file has {self._file.size}",
                rule="the file must hold the bytes of all its tensors",
            )
        return GgufTensor(name, type, shape, start + offset, size)

    def _value(self, type_number: int) -> Any:
        if type_number in _NUMBERS:
            return self._number(_NUMBERS[type_number])
        if type_number == _TEXT:
            return self._text()
        if type_number != _ARRAY:
            self._fail(f"metadata of kind {type_number}", rule="metadata must be numbers, texts, or arrays of these")
        member_type, what = self._number("I"), "values of metadata"
        if member_type == _TEXT:
            length = self._count(_LEAST_TEXT, what)
            for _ in range(length):
                self._skip(self._number("Q"))
        elif member_type in _NUMBERS:
            each = struct.calcsize(_NUMBERS[member_type])
            length = self._count(each, what)
            self._skip(length * each)
        else:
            self._fail(f"an array of kind {member_type}", rule="an array of metadata must hold numbers or texts")
        return f"{counted_text(length, 'value')}"

    def _count(self, least: int, what: str) -> int:
        """Read a number of things that take at least so many bytes each; refuse more than the file can hold."""
        count: int = self._number("Q")
        if count > (self._file.size - self._at) // least:
            self._fail(
                f"it states {count} {what}, with {self._file.size - self._at} bytes left",
                rule="the file must hold all that its header counts",
            )
        return count

    def _number(self, letter: str) -> Any:
        return struct.unpack(f"<{letter}", self._bytes(struct.calcsize(letter)))[0]

    def _text(self) -> str:
        length = self._number("Q")
        # A character of UTF-8 has four bytes at most.
        kept = self._bytes(min(length, _SHOWN * 4))
        self._skip(length - len(kept))
        try:
            text = kept.decode("utf-8", "strict" if len(kept) == length else "ignore")
        except UnicodeDecodeError:
            self._fail(f"the text {kept[:40]!r}", rule="names and texts must be UTF-8")
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

    def _skip(self, length: int) -> None:
        if length > self._file.size - self._at:
            self._cut(length)
        self._file.file.seek(length, 1)
        self._at += length

    def _bytes(self, length: int) -> bytes:
        data = self._file.file.read(min(length, self._file.size - self._at))
        if len(data) < length:
            self._cut(length)
        self._at += length
        return data

    def _cut(self, length: int) -> NoReturn:
        self._fail(
            f"its header wants {length} bytes from {self._at}, the file has {self._file.size}",
            rule="the file must be whole",
        )

    def _fail(self, problem: str, *, rule: str, fix: str = _AGAIN) -> NoReturn:
        raise FileError(problem, path=str(self._file.path), rule=rule, fix=fix)
